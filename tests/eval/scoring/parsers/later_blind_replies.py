"""Two more lists of 120 odd replies each, by somebody who read no code, with the reading of a careful person.

None is doubt, a range, a letter that contradicts its text, or an answer outside the options. Of the 96 replies of each
list that such a person reads, the first try left 52 of THREE unread (26 of 48 choices, 11 of 24 yes or no, 5 of 14
numbers, 10 of 10 sets of labels), with 4 wrong and 2 invented, and 50 of FOUR (29, 10, 5 and 6), with 4 wrong and 2
invented. The kinds that THREE showed were mended first: of FOUR, held back until then, 36 stayed unread (22, 7, 4
and 3), with 4 wrong and 2 invented. Then the kinds that FOUR showed were mended. What only knowledge of medicine
tells is left unread on purpose: that preserved alignment is no fracture, that a transthalamic plane is of the brain,
or that a cup-to-disc ratio of 0.8 is not normal.
"""

THREE_CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    ("CT", "MRI", "Ultrasound", "X-ray"): {
        "Ultrasound": (
            "这是一张超声图像，可见扇形视野和后方回声增强，因此答案是C。",
            "Il s'agit d'une échographie abdominale, donc la réponse C.",
        ),
        "MRI": (
            (
                "It's not a CT; no beam hardening and the grey/white matter contrast is far too good for "
                "that. I'd go with the second option."
            ),
            "Ответ: МРТ головного мозга (B)",
        ),
        "X-ray": ("Radiograph",),
        "CT": (("The image is a computed tomography scan of the abdomen, with contrast, in the portal venous phase."),),
        None: (
            (
                "This appears to be a nuclear medicine bone scan (Tc-99m MDP scintigraphy), which is not "
                "among the options you listed."
            ),
        ),
    },
    ("Axial", "Coronal", "Sagittal"): {
        "Coronal": ("Die Aufnahme zeigt eine koronare Schnittführung.\n\nAntwort: B",),
        "Axial": (
            (
                "<think>Both globes are visible side by side. Could be coronal... the cerebellum would be at "
                "the bottom then. No wait, I see the lenses in front and the occipital lobes behind, so "
                "that's an axial cut.</think>\n\nA"
            ),
            "transverse plane",
        ),
        "Sagittal": ('{"answer": "C", "confidence": 0.62}',),
        None: (
            (
                "Answer: A. Axial\n\nWait, let me re-examine the image. Answer: B. Coronal\n\nWait, let me "
                "re-examine the image. Answer: A. Axial\n\nWait, let me re-examine the image. Answer: B. "
                "Coronal\n\nWait, let me"
            ),
        ),
    },
    ("Benign", "Probably benign", "Suspicious", "Malignant"): {
        "Probably benign": ("Probably benign.", "良性可能性大（B）"),
        "Suspicious": (
            (
                "At first glance this is probably benign, but the irregular inferior margin does not let me "
                "leave it there. Final classification: suspicious."
            ),
        ),
        "Benign": (
            (
                "It is neither malignant nor suspicious. Classic oil cyst with rim calcification - benign, no "
                "follow-up needed."
            ),
        ),
        None: ("Benign or probably benign.",),
    },
    ("BI-RADS 2", "BI-RADS 3", "BI-RADS 4A", "BI-RADS 4B", "BI-RADS 5"): {
        "BI-RADS 4B": (
            "4B",
            "Answer: D. BI-RADS 4B\nAnswer: D. BI-RADS 4B\nAnswer: D. BI-RADS 4B\nAnswer: D. BI-RADS 4",
        ),
        None: ("BI-RADS category 4 (suspicious abnormality). Biopsy should be considered.",),
        "BI-RADS 5": (
            (
                "I would give this a BI-RADS of 5: spiculated high-density mass with pleomorphic "
                "calcifications, >95% likelihood of malignancy."
            ),
        ),
        "BI-RADS 3": ("Kategorie III nach BI-RADS (wahrscheinlich gutartig), Kontrolle in 6 Monaten.",),
    },
    ("Left", "Right", "Bilateral", "No effusion"): {
        "Right": (
            ("The blunting is on the left side of the image, which corresponds to the patient's right. So: right."),
            "No effusion on the left. There is a moderate layering effusion on the right.",
            "B\n\nA. Left\nB. Right\nC. Bilateral\nD. No effusion",
        ),
        "Bilateral": ("Both costophrenic angles are blunted by fluid.",),
        None: ("A. Left\nB. Right\nC. Bilateral\nD. No effusion",),
        "Left": ("左側です。",),
    },
    ("Liver", "Spleen", "Left kidney", "Right kidney", "Pancreas"): {
        None: ("The arrow points at the kidney.", "**Answer:** The right kidney (option C)"),
        "Pancreas": (
            (
                "The structure lies behind the stomach and in front of the splenic vein, so it isn't the "
                "spleen or the left kidney but the pancreatic tail (E)."
            ),
        ),
    },
    ("No finding", "Pneumonia", "Pneumothorax", "Pleural effusion", "Cardiomegaly"): {
        "No finding": ("No pneumonia, no pneumothorax, no pleural effusion. Heart size within normal limits.",),
        "Cardiomegaly": (
            ("The cardiothoracic ratio is about 0.62, i.e. the heart is enlarged. Lungs are clear, no effusion."),
        ),
        None: (
            (
                "I'm sorry, but I can't provide a medical diagnosis from images. Conditions such as pneumonia "
                "or pneumothorax require evaluation by a qualified radiologist."
            ),
            (
                "<think>\nLet me look at the image. The lungs show increased opacity in the right lower zone. "
                "It could be B. Pneumonia or D. Pleural effusion. A meniscus sign would suggest effusion, so "
                "I need to check the costophrenic angle. The right costophrenic angle is"
            ),
        ),
        "Pneumothorax": (
            (
                "FINDINGS: Visceral pleural line at the right apex with absent lung markings beyond it.\n"
                "IMPRESSION: PTX."
            ),
        ),
        "Pneumonia": ("Пневмония (вариант B).",),
    },
    ("No DR", "Mild NPDR", "Moderate NPDR", "Severe NPDR", "PDR"): {
        "Moderate NPDR": ("Grade: 2 (moderate non-proliferative)",),
        "PDR": ("Proliferative diabetic retinopathy, with new vessels at the disc",),
        "Mild NPDR": (
            (
                "There's no evidence of proliferative disease. Only a few microaneurysms are seen, in keeping "
                "with mild non-proliferative DR."
            ),
        ),
        None: ("NPDR",),
        "No DR": ("Sem sinais de retinopatia diabética.",),
    },
    ("T1-weighted", "T2-weighted", "FLAIR", "T1-weighted post-contrast", "Diffusion-weighted"): {
        "T1-weighted post-contrast": ("T1 with gadolinium",),
        "FLAIR": (
            "T2-FLAIR (CSF is suppressed)",
            "I first thought T2 because the edema is bright, but the ventricles are dark. FLAIR it is.",
        ),
        "Diffusion-weighted": ("DWI, b=1000.",),
    },
    ("Type B", "Type A", "No dissection"): {
        "Type A": ("Stanford type A - the flap involves the ascending aorta.",),
        "Type B": ("A. Type B",),
        "No dissection": ("No dissection flap is identified; the aorta is of normal calibre throughout.",),
    },
    ("1", "2", "3", "4 or more"): {
        "4 or more": ("I count 5: two in the right upper lobe, one in the lingula and two in the left lower lobe.",),
        "1": ("There is a single 3 mm nodule in segment 2.",),
    },
    ("Adenocarcinoma", "Squamous cell carcinoma", "Small cell carcinoma", "Normal lung tissue"): {
        "Squamous cell carcinoma": ("Keratin pearls and intercellular bridges -> squamous differentiation. SCC.",),
        None: (
            "Non-small cell lung carcinoma",
            ("The correct answer is either A or B; immunohistochemistry (TTF-1, p40) would be required to decide."),
        ),
    },
    (
        "Parasternal long axis",
        "Parasternal short axis",
        "Apical four-chamber",
        "Apical two-chamber",
        "Subcostal four-chamber",
    ): {
        "Apical four-chamber": ("A4C",),
        "Parasternal long axis": (
            "PLAX view: LV, LA, aortic root and mitral valve are all seen along the heart's long axis.",
        ),
    },
    ("Improved", "Worsened", "Unchanged"): {
        "Worsened": (
            (
                "Compared to the previous film the consolidation has not improved; it has increased and now "
                "also involves the lingula."
            ),
        )
    },
    (
        "Epidural hematoma",
        "Subdural hematoma",
        "Subarachnoid hemorrhage",
        "Intraparenchymal hemorrhage",
        "No hemorrhage",
    ): {
        "Subdural hematoma": ("Crescent-shaped hyperdense extra-axial collection crossing the sutures. SDH.",),
        "Epidural hematoma": ("硬膜外血肿。呈双凸透镜形，未跨越颅缝。",),
    },
    ("Normal", "Abnormal"): {"Abnormal": ("The image is abnormal.",)},
}

THREE_YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Is there a pneumothorax?": {
        "No": ("No pneumothorax is seen.",),
        "Yes": (
            (
                "A thin pleural line is visible at the left apex with no lung markings beyond it, in keeping "
                "with a small pneumothorax."
            ),
        ),
    },
    "Is the trachea midline?": {"No": ("The trachea is deviated to the right.",)},
    "Are the lungs clear?": {"No": ("There is a subtle patchy opacity in the left base.",)},
    "Is there an acute fracture?": {
        "No": ("Yes - well, no, not an acute one. What is seen is an old healed fracture of the 7th rib.",)
    },
    "Is this a normal chest X-ray?": {None: ("Yes, there is a large cavitary lesion in the right upper lobe.",)},
    "Was intravenous contrast used?": {"Yes": ("是",)},
    "Is a fracture line visible?": {"No": ("否，未见明显骨折线。",)},
    "Is there hydronephrosis?": {"No": ("Nein, das Nierenbeckenkelchsystem ist nicht erweitert.",)},
    "Is there a pleural effusion?": {
        "Yes": ("Oui, il existe un épanchement pleural gauche de faible abondance.",),
        None: ("A small effusion cannot be ruled out on this supine film.",),
    },
    "Is the mass invading the chest wall?": {None: ("无法确定",)},
    "Is there midline shift?": {"No": ("Absent.",)},
    "Is there a retinal hemorrhage?": {"Yes": ("It's hard to be certain at this resolution, but I lean toward yes.",)},
    "Is there intracranial hemorrhage?": {"No": ("いいえ、出血は認められません。",)},
    "Is there a fracture of the radius?": {"No": ("لا، لا يوجد كسر في عظم الكعبرة.",)},
    "Is the bowel gas pattern normal?": {"Yes": ("I see nothing abnormal about it.",)},
    "Is there a mass in the image?": {
        None: (
            (
                "I'm unable to view the image you're referring to. If you could upload it, I'd be happy to "
                "say whether there is a mass."
            ),
        )
    },
    "Is there a mass in the liver?": {
        "Yes": (("Yes\nQuestion: Is there a mass in the spleen?\nAnswer: No\nQuestion: Is there ascites?\nAnswer: No"),)
    },
    "Does the image show a polyp?": {None: ("Yes/No",)},
    "Are malignant cells present?": {"No": ("Negative for malignancy.",)},
    "Is there still a right-sided effusion?": {"No": ("Not anymore, it has resolved in the interval.",)},
    "Is the endotracheal tube correctly positioned?": {
        "Yes": ("Its tip lies 4.5 cm above the carina, which is appropriate.",)
    },
    "Is there a hilar mass?": {"Yes": ("No doubt about it: there is a large mass in the right hilum.",)},
    "Is there pulmonary edema?": {
        "Yes": ("Not only is there edema, it is fairly advanced with alveolar flooding in both lower zones.",)
    },
    "Is the appendix dilated?": {
        "Yes": (
            (
                "<think>The user asks if the appendix is dilated. I see a tubular structure in the right "
                "lower quadrant, diameter approx 11 mm, normal is under 6. Hmm, no, could that be terminal "
                "ileum? It is blind-ending, so it is the appendix.</think>\n<answer>yes</answer>"
            ),
        )
    },
    "Is the gallbladder wall thickened?": {
        None: (
            (
                "<think>\nOkay, so the question is about gallbladder wall thickness. Normal is < 3 mm. In the "
                "image the wall seems to be maybe 3 mm or so. If it is 3 mm then no. But the patient may not "
                "be fasting, and then yes it could appear"
            ),
        )
    },
    "Is there cardiomegaly?": {"No": ("The cardiac silhouette is within normal limits.",)},
    "Does this smear show malaria parasites?": {
        "Yes": ("Sí, se observan trofozoítos en anillo dentro de los eritrocitos.",)
    },
    "Is there a kidney stone?": {"Yes": ("True",)},
}

THREE_NUMBERS: dict[tuple[str, str | None], dict[float | None, tuple[str, ...]]] = {
    ("What is the longest diameter of the lesion in mm?", "mm"): {
        12: ("1.2 cm", "The lesion measures approximately 12 x 8 mm.")
    },
    ("What is the longest diameter of the mass in mm?", "mm"): {35: ("ca. 3,5 cm im größten Durchmesser",)},
    ("How many gallstones are visible?", None): {3: ("Three.",)},
    ("How many metastases are visible in this slice?", None): {7: ("4 in the right lobe and 3 in the left.",)},
    ("How many nodules are visible?", None): {0: ("No nodules are visible in this image.",)},
    ("What is the diameter of the nodule in mm?", "mm"): {
        12: ("It's somewhere between 10 and 14 mm; if I have to give one number, 12.",),
        None: ("> 8 mm",),
    },
    ("What is the width of the lesion in cm?", "cm"): {2.5: ("about two and a half centimetres",)},
    ("What is the mean attenuation of the lesion in HU?", "HU"): {
        -95: ("ROI mean = −95 HU (SD 12), i.e. fat",),
        None: ("35-50 HU",),
    },
    ("What is the volume of the effusion in mL?", "mL"): {850: ("0.85 L",)},
    ("What percentage of the right lung is affected?", "%"): {50: ("Roughly half of the right lung is affected.",)},
    ("What is the cardiothoracic ratio in percent?", "%"): {54: ("CTR ≈ 0.54",)},
    ("What is the longest diameter of the kidney in cm?", "cm"): {
        None: (
            (
                "Without a scale bar or the DICOM pixel spacing, I can't give a reliable measurement in cm. A "
                "normal adult kidney is 10 to 12 cm long."
            ),
        )
    },
    ("What is the longest diameter of the cyst in mm?", "mm"): {
        60: (
            (
                "<think>The cyst spans from x=112 to x=232, that's 120 pixels. With 0.5 mm/pixel it is 60 "
                "mm.</think>\n\n\\boxed{60}"
            ),
        )
    },
    ("What is the left ventricular ejection fraction in %?", "%"): {55: ("射血分数约为百分之五十五",)},
    ("How many ribs are fractured?", None): {
        None: (
            (
                "Ribs 4 and 5 on the left, or possibly just rib 5, or none at all - the image quality is too "
                "limited to say how many."
            ),
        )
    },
}

THREE_SETS: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    (
        "Atelectasis",
        "Cardiomegaly",
        "Consolidation",
        "Edema",
        "Pleural Effusion",
        "Pneumonia",
        "Pneumothorax",
        "No Finding",
    ): {
        "Cardiomegaly; Pleural Effusion": (
            "The heart is enlarged and there are small bilateral effusions. No pneumothorax.",
        ),
        "Atelectasis; Pleural Effusion": (
            (
                "- Atelectasis: left base\n- Pneumonia: no\n- Edema: no\n- Pleural Effusion: small, left\n- "
                "Pneumothorax: no"
            ),
        ),
        "Cardiomegaly; Edema": (
            (
                '```json\n{"Atelectasis": 0, "Cardiomegaly": 1, "Consolidation": 0, "Edema": 1, "Pleural '
                'Effusion": 0, "Pneumonia": 0, "Pneumothorax": 0, "No Finding": 0}\n```'
            ),
        ),
        "No Finding": ("No focal consolidation, effusion or pneumothorax. Heart size is normal. Unremarkable study.",),
        None: (
            (
                "Please provide the chest radiograph. Once I have it I can check for Atelectasis, "
                "Cardiomegaly, Consolidation, Edema, Pleural Effusion, Pneumonia, Pneumothorax or No Finding."
            ),
        ),
    },
    ("Microaneurysms", "Hemorrhages", "Hard exudates", "Soft exudates", "Neovascularization"): {
        "Microaneurysms; Hemorrhages; Soft exudates": (
            "Microaneurysms and dot-blot haemorrhages; a few cotton wool spots along the superior arcade.",
        ),
        "Microaneurysms; Hard exudates": ("硬性渗出、微血管瘤。未见新生血管。",),
    },
    ("Epidural", "Subdural", "Subarachnoid", "Intraparenchymal", "Intraventricular"): {
        "Subarachnoid; Intraventricular": ("SAH with intraventricular extension",),
        None: (
            (
                "No hemorrhage is seen. There is a large subdural with subarachnoid blood. No hemorrhage is "
                "seen. There is a large"
            ),
        ),
    },
    ("Endotracheal tube", "Nasogastric tube", "Central venous catheter", "Pacemaker", "Chest tube"): {
        "Endotracheal tube; Nasogastric tube; Central venous catheter": ("ETT, NGT and a right IJ central line.",),
        "none": ("I don't see any of the listed devices.",),
    },
    ("Liver", "Spleen", "Left kidney", "Right kidney", "Gallbladder", "Pancreas", "Aorta"): {
        "Liver; Spleen; Left kidney; Right kidney; Aorta": (
            "Everything on the list except the gallbladder and the pancreas.",
        )
    },
}

FOUR_CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    ("TR1", "TR2", "TR3", "TR4", "TR5"): {
        "TR4": (
            (
                "Composition: solid (2)\nEchogenicity: hypoechoic (2)\nShape: wider-than-tall (0)\nMargin: "
                "smooth (0)\nFoci: none (0)\nTotal: 4 points → TR4"
            ),
        ),
        "TR5": ("5",),
        "TR1": ("The nodule is spongiform, 0 points, which makes it TI-RADS 1 (letter A).",),
        None: ("TR3 或 TR4，建议结合临床。",),
        "TR3": ("<answer>C</answer>",),
    },
    ("AP", "PA", "Lateral"): {
        None: ("This is a PA and lateral chest radiograph.", "Frontal view"),
        "AP": ("Anteroposterior", "A lateral is not what we have here. Portable, supine, magnified heart: AP."),
        "PA": (
            (
                "The scapulae are projected clear of the lung fields and the gastric bubble shows an "
                "air-fluid level, so this was taken posteroanterior with the patient upright."
            ),
        ),
    },
    ("Displaced fracture", "Non-displaced fracture", "No fracture"): {
        "Non-displaced fracture": ("Fractura no desplazada", "nondisplaced fx, base of 5th metatarsal"),
        "Displaced fracture": (
            ("There is a fracture of the distal radius with dorsal angulation and about 4 mm of displacement."),
        ),
        "No fracture": (
            ("I don't see any cortical break or lucent line; alignment is preserved. Soft tissue swelling only."),
        ),
        None: ("There is a fracture of the lateral malleolus.",),
    },
    ("Melanoma", "Melanocytic nevus", "Basal cell carcinoma", "Seborrheic keratosis", "Actinic keratosis"): {
        "Melanocytic nevus": ("A common mole.",),
        "Basal cell carcinoma": ("BCC: pearly papule with arborizing vessels",),
        "Seborrheic keratosis": (
            (
                "Although the ABCDE criteria raise concern for melanoma, the milia-like cysts and comedo-like "
                "openings clinch seborrheic keratosis."
            ),
        ),
        "Melanoma": (
            (
                "Applying ABCDE:\nA - asymmetric\nB - irregular border\nC - three colours\nD - 9 mm\nE - "
                "unknown\n\nThis is a melanoma until proven otherwise."
            ),
        ),
        None: (
            (
                "I can't help with identifying skin cancer from a photo. If you're worried about a mole or a "
                "possible melanoma, please see a dermatologist."
            ),
        ),
    },
    ("Less than 6 mm", "6 to 8 mm", "More than 8 mm"): {
        "6 to 8 mm": ("Approximately 7 mm.",),
        "More than 8 mm": ("1.1 cm",),
        None: ("The nodule is somewhere from 5 to 9 mm.",),
        "Less than 6 mm": ("Der Rundherd misst 4,5 mm und liegt damit unter 6 mm.",),
    },
    ("Right upper lobe", "Right middle lobe", "Right lower lobe", "Left upper lobe", "Left lower lobe"): {
        "Right lower lobe": ("RLL",),
        "Left upper lobe": ("Lingula, so left upper lobe (the lingula belongs to it).",),
        "Right middle lobe": (
            "右肺中叶",
            "The right heart border is silhouetted, so it can't be the right lower lobe. Right middle.",
        ),
        None: ("Upper lobe",),
        "Right upper lobe": ("rechter Oberlappen",),
    },
    ("Grade 0", "Grade 1", "Grade 2", "Grade 3", "Grade 4"): {
        "Grade 3": ("KL 3", "Final Answer: The final answer is $\\boxed{D}$. I hope it is correct."),
        None: (
            (
                "Answer: B\nExplanation: This is Grade 4, with large osteophytes, marked joint space "
                "narrowing and severe sclerosis."
            ),
        ),
        "Grade 2": ("Kellgren–Lawrence grade: two",),
    },
    ("I", "II", "IIF", "III", "IV"): {
        "IIF": ("Bosniak II F", "Between II and IIF I pick the latter because of the number of septa."),
        "IV": ("Category 4 - enhancing soft tissue nodule along the wall",),
        "III": ("I would say III, since the septa are thick and they enhance.",),
    },
    ("Non-contrast", "Arterial", "Portal venous", "Delayed"): {
        "Arterial": (
            (
                "Late arterial phase, as the renal cortex is avidly enhanced and the hepatic veins are not "
                "yet opacified. No portal venous or delayed features."
            ),
        ),
        "Portal venous": ("Fase portal",),
        "Non-contrast": ("Unenhanced.",),
    },
    ("Glioma", "Meningioma", "Pituitary adenoma", "No tumor"): {
        None: ("The correct option is: B\n\nThe correct option is: D",),
        "Meningioma": ("Extra-axial, dural tail, homogeneous enhancement: meningeoma.",),
        "Pituitary adenoma": ("垂体瘤",),
        "No tumor": ("Não há tumor visível; o parênquima tem sinal normal. Letra D.",),
    },
    ("None", "Small", "Moderate", "Large"): {
        "Small": ("There's only a trace of fluid posteriorly, so I would call it small rather than moderate.",),
        "Large": ("Massive, with a swinging heart",),
        None: ("small to moderate",),
    },
    ("Left MCA", "Right MCA", "Left PCA", "Right PCA"): {
        "Left MCA": (
            ("Hypodensity in the left middle cerebral artery territory (seen on the right side of the picture)."),
        ),
        "Right MCA": ("The infarct is in the MCA territory, on the patient's right",),
    },
    ("Yes", "No", "Cannot be determined"): {
        "Cannot be determined": ("This can't be determined from a single unenhanced slice.",)
    },
    ("Hemangioma", "Metastasis", "Hepatocellular carcinoma", "None of the above"): {
        "None of the above": ("None of these; it looks like a simple cyst.",),
        "Hemangioma": (
            (
                "Peripheral nodular discontinuous enhancement with centripetal fill-in. This is pathognomonic "
                "for a cavernous haemangioma and excludes HCC."
            ),
        ),
        None: ("",),
    },
    ("Abdomen", "Brain", "Femur", "Thorax", "Maternal cervix", "Other"): {
        "Brain": (("Transthalamic plane with the thalami and the cavum septi pellucidi, used for the BPD.<|im_end|>"),),
        "Femur": ("ASSISTANT: The fetal femur is shown, with both ends of the diaphysis.</s>",),
    },
    ("CNV", "DME", "Drusen", "Normal"): {
        "Drusen": ("There is no CNV and no DME. What I see are small RPE elevations, i.e. drusen",),
        None: ("Answer: [A/B/C/D]",),
    },
    ("Almost entirely fatty", "Scattered fibroglandular densities", "Heterogeneously dense", "Extremely dense"): {
        "Heterogeneously dense": (
            "ACR density c (the breasts are heterogeneously dense, which may obscure small masses)",
        )
    },
    ("H&E", "PAS", "Masson trichrome", "Congo red"): {"H&E": ("Haematoxylin and eosin",)},
}

FOUR_YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Is there free air under the diaphragm?": {
        "Yes": ("Sim, há pneumoperitônio abaixo da cúpula direita.",),
        "No": ("Free air: negative",),
    },
    "Is there consolidation?": {"No": ("Both lungs are clear.",)},
    "Is the optic disc normal?": {
        "No": ("The cup-to-disc ratio is about 0.8 with inferior rim notching, so it looks glaucomatous.",)
    },
    "Is the heart size normal?": {"Yes": ("The heart is not enlarged.",)},
    "Is there a tumor in this brain MRI?": {
        None: ("No, there is a 3 cm ring-enhancing tumor in the left temporal lobe.",)
    },
    "Is the lesion hypoechoic?": {None: ("没有图像，无法回答该问题。",)},
    "Is this an axial image?": {"Yes": ("对，这是轴位图像。",)},
    "Is there lymphadenopathy?": {"No": ("不存在淋巴结肿大",)},
    "Are both kidneys visible?": {"No": ("Only the left one is.",)},
    "Is there a skull fracture?": {"No": ("Non, aucune fracture visible.",), "Yes": ("Ja.",)},
    "Is there dilatation of the bile ducts?": {"No": ("Нет, желчные протоки не расширены.",)},
    "Is there calcification in the mass?": {"Yes": ("Да",)},
    "Is the lesion malignant?": {
        None: ("It could be malignant or it could be benign; histology is needed before anyone can say.",)
    },
    "Is the image a T2-weighted MRI?": {"No": ("No. It is T1-weighted (CSF is dark).",)},
    "Is a central line present?": {
        "Yes": (
            (
                "Certainly! Let's look at the image. There is a catheter entering through the right internal "
                "jugular vein with its tip at the cavoatrial junction."
            ),
        )
    },
    "Is there evidence of metastasis?": {
        "No": ("Certainly! After reviewing the image, I can find no evidence of metastasis.",)
    },
    "Does the patient have scoliosis?": {"Yes": ("yes yes yes yes yes yes yes yes yes yes",)},
    "Is there a bowel obstruction?": {
        "No": ('{"answer": false, "reason": "Yes there are gas-filled loops, but none is dilated."}',)
    },
    "Is the nasogastric tube in the stomach?": {"No": ("Unfortunately not: it is coiled in the oesophagus.",)},
    "Is there a foreign body?": {"Yes": ("はい、異物が認められます。",)},
    "Is there pneumonia in the left lung?": {"No": ("There is pneumonia, but it's confined to the right lung.",)},
    "Is the aorta dilated?": {
        "Yes": (
            (
                "Let me think step by step.\n1. The aorta is in front of the spine.\n2. Its diameter seems to "
                "be around 5 cm.\n3. Normal is < 3 cm.\nTherefore the answer is: Yes."
            ),
        )
    },
    "Is there a rib lesion?": {None: ("Answer yes or no.",)},
    "Is the mass well circumscribed?": {"No": ("The margins are spiculated.",)},
    "Is there perihilar haze?": {
        None: (
            (
                "Yes... actually, on a second look, that's rotation. And yet the vessels are indistinct, so "
                "yes. Or no, given the rotation. I keep going back and forth here."
            ),
        )
    },
    "Is there a cyst in the left kidney?": {"Yes": ("نعم، توجد كيسة بسيطة في الكلية اليسرى.",)},
    "Is cardiomegaly present?": {
        None: (
            (
                "I apologize, but I'm not able to make diagnostic judgements on medical images; a clinician "
                "should review this."
            ),
        )
    },
    "Is there brain atrophy?": {"Yes": ("Yup - sulci are wide and the ventricles are big for age.",)},
}

FOUR_NUMBERS: dict[tuple[str, str | None], dict[float | None, tuple[str, ...]]] = {
    ("What is the longest diameter of the nodule in mm?", "mm"): {14: ("0.8 × 1.4 × 1.1 cm",), 15: ("1 1/2 cm",)},
    ("What is the longest diameter of the mass in cm?", "cm"): {
        4.7: ("47 mm in maximum dimension",),
        4.2: ("4,2 x 3,6 cm",),
    },
    ("How many polyps are visible?", None): {1: ("There's just the one polyp, about 5 mm.",)},
    ("How many mitotic figures are visible?", None): {12: ("I count roughly a dozen.",)},
    ("How many fractured ribs are there?", None): {4: ("Fractures of the left 3rd, 4th, 5th and 6th ribs",)},
    ("How many lesions are visible?", None): {None: ("Several.",), 2: ("二つの病変が見られます。",)},
    ("What percentage of the kidney is replaced by the tumor?", "%"): {75: ("three quarters of it",)},
    ("What is the ejection fraction in %?", "%"): {
        None: ("LVEF 60 - 65 % (normal)",),
        40: ("EF = (EDV-ESV)/EDV = (120-72)/120 = 0.40, so about 40%",),
    },
    ("What is the attenuation of the lesion in HU?", "HU"): {
        -80: ("minus eighty Hounsfield units",),
        None: (
            (
                "This image is an 8-bit PNG with the window baked in, so attenuation cannot be recovered. "
                "Simple cysts are usually 0-20 HU."
            ),
        ),
    },
    ("What is the total liver volume in mL?", "mL"): {1450: ("~1,450 cc",)},
    ("What is the volume of the hematoma in mL?", "mL"): {
        30: (("ABC/2: 6 × 4 × 5 / 2 = 60 mL. Hmm, the slices are 5 mm, so C is 2.5 and not 5. Corrected: 30 mL."),)
    },
    ("What is the thickness of the endometrium in mm?", "mm"): {9.4: ("Endometrium: 9,4 mm (Tag 18 des Zyklus)",)},
    ("What is the distance between the tube tip and the carina in cm?", "cm"): {
        None: (
            (
                "<think>\nThe tube tip is at about the level of T3. The carina is at T5. Each vertebral body "
                "is around 2 cm, so that gives about 4 cm, but there's magnification to think of, and the "
                "discs. If I count the discs then"
            ),
        )
    },
}

FOUR_SETS: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    (
        "Atelectasis",
        "Cardiomegaly",
        "Consolidation",
        "Edema",
        "Pleural Effusion",
        "Pneumonia",
        "Pneumothorax",
        "No Finding",
    ): {
        "Cardiomegaly; Edema": ("Pulmonary oedema with an enlarged heart. No consolidation.",),
        "Cardiomegaly; Edema; Pleural Effusion": ("Edema, Edema, Edema, Cardiomegaly, Edema, Pleural Effusion, Edema",),
        "Atelectasis; Pleural Effusion": ('["pleural_effusion", "atelectasis"]',),
        "Cardiomegaly; Pleural Effusion": ("Pleuraerguss beidseits, Kardiomegalie; kein Pneumothorax.",),
        None: ("Either pneumonia or atelectasis, I can't tell which of the two.",),
    },
    ("Microaneurysms", "Hemorrhages", "Hard exudates", "Soft exudates", "Neovascularization"): {
        "Hemorrhages; Neovascularization": ("NVD and NVE are present, along with preretinal haemorrhage.",),
        "Microaneurysms; Hemorrhages; Hard exudates; Neovascularization": ("All of them except soft exudates.",),
    },
    ("Liver", "Spleen", "Left kidney", "Right kidney", "Gallbladder", "Pancreas", "Aorta"): {
        "Liver; Left kidney; Right kidney; Aorta": ("Both kidneys, the liver and the abdominal aorta.",)
    },
    ("Epidural", "Subdural", "Subarachnoid", "Intraparenchymal", "Intraventricular"): {
        "Subdural; Subarachnoid": (
            (
                "| Type | Present |\n|---|---|\n| Epidural | ❌ |\n| Subdural | ✅ |\n| Subarachnoid | ✅ |\n"
                "| Intraparenchymal | ❌ |\n| Intraventricular | ❌ |"
            ),
        )
    },
    ("Endotracheal tube", "Nasogastric tube", "Central venous catheter", "Pacemaker", "Chest tube"): {
        "Pacemaker": ("A left pectoral pacemaker with two leads. The chest tube seen previously has been removed.",),
        None: (
            (
                "I'm not able to interpret medical images, so I can't say if there's an endotracheal tube or "
                "a central venous catheter."
            ),
        ),
    },
    ("Atypical pigment network", "Blue-whitish veil", "Streaks", "Regression structures", "Dots and globules"): {
        "Blue-whitish veil; Streaks": (
            "Velo azul-blanquecino y estrías en la periferia; no hay estructuras de regresión.",
        )
    },
}
