"""Kinds of replies that blind lists showed, in variants that no list holds, with the reading of a careful person."""

SCALE = ("BI-RADS 2", "BI-RADS 3", "BI-RADS 4A", "BI-RADS 4B", "BI-RADS 5")
GRADES = ("Grade 1", "Grade 2", "Grade 3")
MODALITIES = ("CT", "MRI", "Ultrasound", "X-ray")
PLANES = ("Axial", "Coronal", "Sagittal")
CHEST = ("No finding", "Pneumonia", "Pneumothorax", "Pleural effusion", "Cardiomegaly")
SIDES = ("Left", "Right", "Bilateral", "No effusion")
ORGANS = ("Liver", "Spleen", "Left kidney", "Right kidney", "Pancreas")
BLEEDS = ("Epidural hematoma", "Subdural hematoma", "Subarachnoid hemorrhage", "No hemorrhage")
COUNTS = ("1", "2", "3", "4 or more")
CHANGES = ("Improved", "Worsened", "Unchanged")
SEQUENCES = ("T1-weighted", "T2-weighted", "FLAIR", "T1-weighted post-contrast", "Diffusion-weighted")
VIEWS = ("Parasternal long axis", "Parasternal short axis", "Apical four-chamber", "Apical two-chamber")
HISTOLOGY = ("Adenocarcinoma", "Squamous cell carcinoma", "Small cell carcinoma", "Normal lung tissue")

BOSNIAK = ("I", "II", "IIF", "III", "IV")
TERRITORIES = ("Left MCA", "Right MCA", "Left PCA", "Right PCA")
LESIONS = ("Hemangioma", "Metastasis", "Hepatocellular carcinoma", "None of the above")
SIZES = ("Less than 6 mm", "6 to 8 mm", "More than 8 mm")

CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    SCALE: {
        "BI-RADS 5": ("BIRADS-5", "BI-RADS: 5", "Category V", "BI-RADS category 5.", "BI RADS 5 lesion"),
        "BI-RADS 4A": ("4a", "category 4A", "It is a 4A.", "BI-RADS IVa"),
        "BI-RADS 3": ("I'd assign category 3 according to BI-RADS.", "BI-RADS score of III"),
        None: ("BI-RADS 4", "BI-RADS 3-4", "BI-RADS 0", "category 6", "BI-RADS 3 or 5"),
    },
    GRADES: {"Grade 2": ("grade II", "a grade 2 lesion", "2"), None: ("grade 1-2", "grade 4")},
    MODALITIES: {
        "MRI": (
            "核磁共振",
            "MRT",
            "IRM",
            "I would pick the second option.",
            "The 2nd option is correct.",
            "a magnetic resonance image",
        ),
        "Ultrasound": ("Sonographie", "échographie", "超声图像", "This is a sonogram."),
        "CT": ("a CAT scan", "the first option", "TDM"),
        "X-ray": ("plain film", "the last option", "Röntgenbild"),
        None: ("PET", "the fifth option", "not the second option"),
    },
    PLANES: {
        "Axial": ("a transverse slice", "transversal", "横断面", "transaxial plane"),
        "Coronal": ("frontal plane", "冠状面", "koronar"),
        None: ("oblique plane", "transverse or coronal", "the frontal lobe", "a transverse process"),
    },
    CHEST: {
        "Pneumothorax": ("Impression: PTX", "There is a left-sided PTX", "右侧气胸", "Pneumotórax à direita"),
        "Cardiomegaly": ("The heart is markedly enlarged.", "enlarged cardiac silhouette", "心影增大", "Kardiomegalie"),
        "Pleural effusion": ("derrame pleural izquierdo", "a large effusion on the right", "Pleuraerguss", "胸腔积液"),
        "No finding": (
            "Unremarkable study.",
            "Normal chest radiograph.",
            "未见异常",
            "No acute cardiopulmonary abnormality.",
        ),
        "Pneumonia": ("Pneumonie", "肺炎", "Neumonía en el lóbulo inferior derecho"),
        None: ("a pericardial effusion", "The heart size is normal.", "心包积液"),
    },
    SIDES: {
        "Left": ("No effusion on the right. Small effusion on the left.", "links", "左侧", "Hence: left"),
        "Right": ("Thus: right.", "à droite", "No effusion on the left, a large one on the right."),
        "Bilateral": ("on both sides", "beidseits", "双侧"),
        "No effusion": ("No effusion is seen.", "There is no pleural effusion."),
        None: ("No effusion on the left.",),
    },
    ORGANS: {
        "Pancreas": ("It is not the liver but the pancreas (E).", "the pancreas (option E)", "胰腺"),
        "Right kidney": ("the right kidney (D)", "the right kidney [D]"),
        None: (
            "the pancreas (option D)",
            "The arrow points to the liver (B).",
            "Spleen (C)",
            "It shows the left kidney (A).",
        ),
    },
    BLEEDS: {
        "Subdural hematoma": ("SDH", "acute SDH on the left", "Subduralhämatom", "硬膜下血肿", "a subdural hemorrhage"),
        "Subarachnoid hemorrhage": ("SAH", "蛛网膜下腔出血", "subarachnoid bleed"),
        "Epidural hematoma": ("EDH", "extradural haematoma", "hématome extradural"),
        "No hemorrhage": (
            "No evidence of haemorrhage.",
            "keine Blutung",
            "sin signos de hemorragia",
            "未见出血",
            "no bleeding",
        ),
        None: ("hemorrhage", "SDH or EDH", "脑出血"),
    },
    COUNTS: {
        "4 or more": (
            "I count six of them: 3 in the right lung and 3 in the left.",
            "2 in the right lobe and 4 in the left lobe.",
        ),
        "1": ("a solitary 8 mm nodule in segment 6", "There is a single nodule measuring 12 mm."),
        "3": ("2 in the upper lobe and 1 in the lower lobe", "I can count 3 nodules."),
        None: ("several", "a 3 mm nodule", "B. 3", "2 or 3 nodules"),
    },
    CHANGES: {
        "Worsened": ("It has increased in size.", "progression", "larger than before", "恶化"),
        "Improved": ("It has decreased.", "regression", "smaller", "The opacity has not worsened, it is smaller."),
        "Unchanged": ("stable", "no interval change", "unverändert", "无变化"),
        None: ("It has changed.", "not improved"),
    },
    SEQUENCES: {
        "T1-weighted post-contrast": (
            "T1 post-contrast",
            "contrast-enhanced T1",
            "T1 Gd+",
            "post-gadolinium T1-weighted image",
        ),
        "Diffusion-weighted": ("DWI", "diffusion weighted imaging", "弥散加权成像"),
        "T1-weighted": ("T1", "T1w", "a T1 image"),
        "T2-weighted": ("T2w", "T2"),
        None: ("post-contrast", "SWI", "ADC map", "not DWI"),
    },
    VIEWS: {
        "Apical four-chamber": ("A4C", "apical 4-chamber view", "AP4", "4CH"),
        "Parasternal long axis": ("PLAX", "parasternal long-axis view"),
        "Parasternal short axis": ("PSAX", "PSAX at the level of the papillary muscles"),
        None: ("A3C", "subcostal view"),
    },
    BOSNIAK: {
        "IIF": ("Bosniak IIF", "Bosniak II F", "category 2F", "Between II and IIF, the latter."),
        "II": ("I would say II.", "Bosniak category II", "Between II and IIF, the former."),
        "IV": ("category 4", "Type IV"),
        None: ("I am not sure.", "II or III", "Bosniak 3 or 4"),
    },
    TERRITORIES: {
        "Left MCA": ("the territory of the left middle cerebral artery", "MCA infarct, on the patient's left"),
        "Right PCA": ("right posterior cerebral artery", "The PCA on the right side."),
        None: ("the middle cerebral artery", "both the left and the right MCA"),
    },
    LESIONS: {
        "None of the above": ("None of these.", "None of these; a cyst.", "以上都不是"),
        "Hemangioma": ("Typical haemangioma, which excludes HCC.", "This argues against metastasis: a haemangioma."),
        None: ("A cyst.", "It excludes HCC."),
    },
    SIZES: {
        "Less than 6 mm": (
            "Der Rundherd misst 4,5 mm.",
            "The nodule in the left upper lobe close to the pleura is 5 mm.",
        ),
        "6 to 8 mm": ("About 7 mm in its greatest diameter on this axial slice.",),
        None: ("It measures between 5 and 9 mm.",),
    },
    HISTOLOGY: {
        "Squamous cell carcinoma": ("SCC", "鳞癌", "Plattenepithelkarzinom", "epidermoid carcinoma"),
        "Small cell carcinoma": ("SCLC", "小细胞癌"),
        "Adenocarcinoma": ("腺癌", "Adenokarzinom"),
        None: ("carcinoma", "not SCC", "SCC or SCLC"),
    },
}

YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Is there a pleural effusion?": {
        "Yes": (
            "Not only is there an effusion, it is large.",
            "No doubt: there is an effusion on the left.",
            "Yes\n\nQuestion: Is there a pneumothorax?\nAnswer: No",
            "Да, справа.",
            "No - actually, yes.",
            "はい、あります。",
            "نعم، يوجد.",
        ),
        "No": (
            "Not anymore.",
            "No longer; it has resolved.",
            "No\nQ: Is the heart enlarged?\nA: Yes",
            "Yes - well, no.",
            "Нет, выпота не видно.",
            "Negative for effusion.",
            "没有,双侧肋膈角锐利。",
        ),
        None: ("Yes, there is no effusion.", "No, there is a pleural effusion.", "No, wait, yes."),
    },
    "Are both kidneys visible?": {
        "No": ("Only the left one is.", "Just the right one.", "One of them is not."),
        None: ("Only on later slices.",),
    },
    "Is there consolidation?": {"No": ("Both lungs are clear.",), None: ("Certainly not certain.", "Only one.")},
    "Is there a mass in the left lung?": {
        "Yes": ("Certainly! There is a mass in the left lung.", "There is a mass."),
        "No": (
            "The mass is confined to the right lung.",
            "Certainly! I can find no mass.",
            "No, it is in the right lung.",
        ),
        None: ("There is a mass in the right lung.",),
    },
    "Is there a tumor in this MRI?": {
        "No": ("Unfortunately not: it was removed.", "No, there is no tumor."),
        None: ("No, there is a large tumor in the left lobe.", "没有图像,无法回答。"),
    },
    "Is the heart size normal?": {
        "Yes": ("The heart is not enlarged.",),
        None: ("It is not enlarged, but displaced.",),
    },
    "Are the lungs clear?": {
        "No": ("There is a nodule in the right lung.", "Bibasal atelectasis is seen.", "A consolidation is present."),
        "Yes": ("Yes, no consolidation or nodule.", "They are clear."),
        None: (
            "Yes, there is a large consolidation.",
            "There is a rib fracture.",
            "There is no nodule.",
            "A nodule was seen before, it resolved.",
        ),
    },
    "Is this a normal chest X-ray?": {
        "No": (
            "There is a left pleural effusion.",
            "The radiograph shows a mass in the left lung.",
            "No, there is a mass.",
        ),
        "Yes": ("I see nothing abnormal.", "Yes, nothing abnormal is seen.", "Nothing unusual here."),
        None: ("Yes, there is a pneumothorax on the left.", "There may be a nodule."),
    },
    "Is the trachea midline?": {
        "No": ("It is shifted to the left.", "The trachea is displaced.", "deviated to the right"),
        "Yes": ("The trachea is midline.",),
    },
    "Is the nasogastric tube in the correct position?": {
        "Yes": ("The tip is in the stomach, which is appropriate.", "Its position is satisfactory."),
        "No": ("It is malpositioned.", "The tube is misplaced."),
        None: ("The tip is seen.", "The position may be appropriate.", "It is well seen.", "Image quality is good."),
    },
    "Is there cardiomegaly?": {
        "No": ("The heart size is within normal limits.", "The heart is of normal size.", "The heart is not enlarged."),
        "Yes": ("The heart is enlarged.", "The cardiac silhouette appears moderately enlarged."),
    },
}

NUMBERS: dict[tuple[str, str | None], dict[float | None, tuple[str, ...]]] = {
    ("How many metastases are visible?", None): {
        7: ("4 in the right lobe and 3 in the left lobe", "Four in the right lobe and three in the left."),
        5: ("5: two in the liver and three in the lung", "A total of 5, 2 in the right and 3 in the left."),
        0: ("No metastases are visible.", "There are no metastases in this slice.", "I see no liver metastases."),
        1: ("just the one, about 5 mm",),
        12: ("a dozen", "about a dozen metastases"),
        3: ("metastases of the 3rd, 4th and 6th ribs", "三个病灶"),
        None: ("more than 3 in the right lobe", "3 of the 4", "3 mm", "the 4th rib"),
    },
    ("What is the diameter in mm?", "mm"): {
        12: ("Between 10 and 14 mm; my best estimate is 12 mm.", "10-14 mm, if I have to choose, 12 mm."),
        None: ("Between 10 and 14 mm.",),
    },
    ("What percentage of the lung is affected?", "%"): {
        50: ("About half of it.", "half", "百分之五十"),
        75: ("Three quarters of the lung.",),
        25: ("a quarter of the lung", "百分之25"),
        None: ("more than half of it", "less than a quarter of the lung", "a part"),
    },
    ("What is the ejection fraction in percent?", "%"): {55: ("0.55", "EF = 0.55", "55", "55 %"), 0.5: ("0.5%",)},
}

SETS: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion", "Pneumothorax", "No Finding"): {
        "Cardiomegaly; Pleural Effusion": (
            "Enlarged heart and a small left effusion.",
            "The heart is enlarged. Small bilateral pleural effusions. No pneumothorax or consolidation.",
            "心影增大、胸腔积液。未见气胸",
        ),
        "Atelectasis": (
            "Linear atelectasis at the left base, no effusion.",
            "- Atelectasis: right base\n- Edema: absent",
        ),
        "No Finding": ("Normal chest radiograph.", "No consolidation, effusion or pneumothorax. Normal study."),
        "Cardiomegaly": (
            "Cardiomegaly. The effusion has resolved.",
            "no pneumothorax, effusion or edema, cardiomegaly",
        ),
        "Edema": ('```json\n{"Edema": 1, "Atelectasis": 0}\n```', "pulmonary oedema"),
        None: (
            "Consolidation or atelectasis at the left base.",
            "No effusion, consolidation.",
            "Edema, maybe an effusion.",
            "Cardiomegaly and a fracture of the clavicle? Unclear.",
            "The bases look hazy.",
            "Edema - 0.9, Pleural effusion - 0.1",
            "Cardiomegaly and edema have resolved.",
        ),
    },
    ("Endotracheal tube", "Nasogastric tube", "Central venous catheter", "Chest tube"): {
        "Endotracheal tube; Central venous catheter": ("ETT and central line", "ET tube, right subclavian CVC."),
        "none": (
            "I do not see any of them.",
            "There are none of the listed devices.",
            "None of the devices is visible.",
        ),
        "Endotracheal tube; Nasogastric tube; Chest tube": (
            "All of the listed devices except the central venous catheter.",
            "Everything apart from the central line.",
        ),
    },
}
