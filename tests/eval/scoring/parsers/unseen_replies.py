"""Replies written before anyone looked at how they are read, each with the reading of a careful person; None is doubt.

After each list was written it was counted once, and only then more was made of the kinds that it showed to be missed.
Of choices, yes or no, and measures together the first try missed 31 of 167 (FIRST), 11 of 83, with one wrong and one
invented (SECOND), 8 of 71 (THIRD) and 5 of 65 (FOURTH); what was read before FIRST missed 11, 10 and 6 of the others.
"""

ECHO = ("Left ventricle", "Right ventricle", "Left atrium", "Right atrium")
SKIN = ("Melanoma", "Melanocytic nevus", "Basal cell carcinoma", "Seborrheic keratosis")
BRAIN = ("Glioma", "Meningioma", "Pituitary tumor", "No tumor")
SCANS = ("CT", "MRI", "X-ray", "Ultrasound")
SCORES = ("BI-RADS 2", "BI-RADS 3", "BI-RADS 4", "BI-RADS 5")
WAYS = (
    "Move the probe towards the head",
    "Rotate the probe by 90 degrees",
    "Lower the gain",
    "Keep the probe where it is",
)

FIRST_CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    ECHO: {
        "Left ventricle": (
            "Resposta correta: A",
            "Svar: A.",
            "Rätt svar är A.",
            "Правильный ответ — А",
            "答案为A。",
            "正解はAです。",
            "정답은 A입니다.",
            "الإجابة: A",
            "Đáp án: A",
            "<final>A</final>",
            "<final_answer>(A) Left ventricle</final_answer>",
            '{"answer": "A", "confidence": 0.83}',
            '{"reasoning": "The chamber is at the apex; C is behind it.", "answer": "A"}',
            '```json\n{\n  "choice": "A",\n  "label": "Left ventricle"\n}\n```',
            r"$\boxed{\text{A}}$",
            r"The final answer is \(\boxed{A}\).",
            "| Option | Correct? |\n|---|---|\n| A | Yes |\n| B | No |\n| C | No |\n| D | No |",
            "It is not the right ventricle, and neither atrium is marked. The arrow points at the left ventricle.",
            "At first glance the right ventricle, but the thick wall tells that it is the left ventricle.",
            "B... no wait, the orientation marker is on the other side, so A.",
        ),
        "Right ventricle": (
            "I'd go with B here.",
            "My best guess: B",
            "Final: B",
            "B) Right ventricle ✔️",
            "Out of the four, only B fits.",
            "RIGHT VENTRICLE!!!",
            "right-ventricle",
            "The answer should be option (B), because the right atrium (D) is behind the valve.",
            "Options A, C and D can be ruled out, which leaves B.",
            "**Answer**\n\nB",
        ),
        "Left atrium": (
            "Answer = C",
            "C, i.e. the left atrium",
            "### Answer: C. Left atrium\n\n### Explanation: The pulmonary veins enter here, and A lies in front of it.",
            "Option C (left atrium), not option D (right atrium).",
            "¿Respuesta? C",
            "Left atrium (C) is my answer; left ventricle (A) would be larger.",
        ),
        None: (
            "Either the left ventricle or the right ventricle.",
            "A or B",
            "The heart is shown in a four-chamber view.",
            "I cannot see an arrow in this image.",
            "All four chambers are visible.",
            "A: 40 %, B: 40 %, C: 10 %, D: 10 %",
            "The left ventricle, the right ventricle, the left atrium and the right atrium.",
        ),
    },
    SKIN: {
        "Melanoma": (
            "Melanoma is the most likely diagnosis; a melanocytic nevus is less likely.",
            "Melanoma > Melanocytic nevus > Seborrheic keratosis",
            "1. Melanoma (70%)\n2. Melanocytic nevus (20%)\n3. Basal cell carcinoma (10%)",
            "Given asymmetry, colour variegation and an irregular border, this is concerning for melanoma.",
            "<think>It could be a nevus. The border is irregular, though. So melanoma.</think>melanoma",
            "The lesion is suspicious for melanoma rather than a benign melanocytic nevus.",
            "A. Melanoma\n\nNote: This is no medical advice. Please see a dermatologist.",
            "Es handelt sich um ein Melanoma (A).",
        ),
        "Melanocytic nevus": (
            "b",
            "b. melanocytic naevus",
            "This looks like a melanocytic nevus to me, though I'm not a doctor.",
            "No features of melanoma; a melanocytic nevus.",
            "A: incorrect. B: correct. C: incorrect. D: incorrect.",
            "Not A, C or D. B.",
            "{'answer': 'B'}",
            "final_answer: B",
        ),
        "Seborrheic keratosis": (
            "It's D, isn't it?",
            "Stuck-on look, milia-like cysts, comedo-like openings => D",
            "Answer: **(D)**",
            "D (Seborrheic keratosis), with A as the main differential diagnosis.",
            "Correct answer → D",
        ),
        None: (
            "It may be melanoma, a melanocytic nevus or a seborrheic keratosis.",
            "A biopsy is needed to tell melanoma from a melanocytic nevus.",
            "This is a dermoscopic image of a pigmented lesion.",
            "None of the above.",
            "Not melanoma.",
        ),
    },
    BRAIN: {
        "Meningioma": (
            "An extra-axial mass with a dural tail, typical of meningioma. Glioma is intra-axial.",
            "The MRI shows a tumor. It is a meningioma.",
            "Meningioma (benign tumor of the meninges)",
            "Type: Meningioma",
            "Diagnosis: meningioma; differential: glioma",
            "Is it a glioma? No. It is a meningioma.",
            "(b) meningioma",
            "[B]",
            "「B」",
            "B：脑膜瘤",
            "I was going to say glioma, but I would now say meningioma.",
        ),
        "No tumor": (
            "There is no tumor in this image.",
            "D - no tumor, hence neither glioma nor meningioma nor a pituitary tumor",
            "I see no evidence of a tumor, so D.",
            "No tumor is visible. A glioma would enhance.",
            "no tumour",
            "None of A, B and C: D.",
        ),
        None: (
            "There is a tumor.",
            "Glioma? Meningioma? Hard to say.",
            "I think that it is either A or C, but I can't decide.",
        ),
    },
    SCANS: {
        "MRI": (
            "This is a T2-weighted MRI of the brain, not a CT.",
            "It is an MR image, i.e. B. MRI.",
            "The image was acquired by MRI.",
            "Not CT: no bone is bright. MRI.",
            "A ❌\nB ✅\nC ❌\nD ❌",
            "(A) [ ] CT\n(B) [x] MRI\n(C) [ ] X-ray\n(D) [ ] Ultrasound",
        ),
        "X-ray": (
            "chest x-ray",
            "C. This is a plain radiograph (X-ray); a CT would show slices.",
            "X ray",
            "Antwort: (C) – Röntgen",
        ),
        "Ultrasound": (
            "Ultrasound (also called sonography)",
            "That would be D!",
            "The modality is ultrasound. CT and MRI show more than a sector.",
        ),
        None: ("CT or MRI", "It is a medical image."),
    },
    SCORES: {
        "BI-RADS 4": (
            "BIRADS 4",
            "BI-RADS category 4",
            "C: BI-RADS 4 (suspicious)",
            "BI-RADS 4, as the margins are not circumscribed; BI-RADS 5 would need spiculation.",
        ),
        "BI-RADS 2": ("I assign BI-RADS 2.", "2", "Category: BI-RADS 2 (benign)"),
        None: ("BI-RADS 0", "BI-RADS 3 or 4"),
    },
    WAYS: {
        "Rotate the probe by 90 degrees": (
            "Rotate the probe by 90°.",
            "You should rotate the probe by 90 degrees.",
            "B: rotate the probe by 90 degrees, and do not move it towards the head.",
        ),
        "Keep the probe where it is": (
            "Keep the probe where it is, no rotation needed.",
            "D, the view is good already.",
        ),
    },
}

FIRST_YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Is there a pleural effusion?": {
        "Yes": (
            "Yes, a small one.",
            "yes.",
            "Sí.",
            "是的",
            "はい。",
            "Ja, rechts.",
            '{"answer": true}',
            "<answer>yes</answer>",
            r"\boxed{\text{Yes}}",
            "There is a small pleural effusion on the left.",
            "A pleural effusion is present.",
            "It appears so.",
            "Affirmative.",
            "I believe that there is a pleural effusion, yes.",
            "No... actually yes, the left costophrenic angle is blunted.",
            "Definitely.",
            "Blunting of the costophrenic angle indicates a pleural effusion.",
            "The pleural effusion is small.",
            "1. Yes",
        ),
        "No": (
            "No pleural effusion.",
            "There isn't one.",
            "Non, il n'y en a pas.",
            "没有",
            "The lungs are clear; no effusion is seen.",
            "Negative for pleural effusion.",
            "I do not see any pleural effusion.",
            "No sign of that.",
            "Answer: No. Yes would be right if the angles were blunted.",
            "There is no evidence to suggest a pleural effusion in this image.",
            "Pleural effusion: absent",
            "The costophrenic angles are sharp, without effusion.",
            "<think>Is it blunted? Yes, maybe. No, the angle is sharp.</think>\nNo",
            "Nope",
            "**No**, the chest radiograph is normal.",
        ),
        None: (
            "A lateral view would help to decide.",
            "Possibly.",
            "I can't tell.",
            "Yes and no.",
            "Yes/No",
            "The heart is enlarged.",
        ),
    },
    "Is the liver enlarged?": {
        "Yes": ("The liver is enlarged.", "Hepatomegaly is present: yes.", "It is enlarged.", "Da, este mărit. Yes."),
        "No": ("The liver is of normal size.", "It is not enlarged.", "The liver is not enlarged, the spleen is."),
        None: ("The spleen is enlarged.",),
    },
}

FIRST_NUMBERS: dict[str | None, dict[float | None, tuple[str, ...]]] = {
    None: {
        3: (
            "3",
            "three",
            "There are three nodules.",
            "Answer: 3 nodules",
            r"\boxed{3}",
            '{"count": 3}',
            "3.",
            "I count 3, of which 2 are on the left.",
            "Drei",
            "三个",
            "1 + 2 = 3",
            "<answer>3</answer>",
            "2, no, 3.",
        ),
        0: ("None", "There are no nodules.", "zero"),
        None: ("2 or 3", "several", "between 2 and 4"),
    },
    "mm": {
        12: (
            "12 mm",
            "about 12 mm",
            "1.2 cm",
            "≈ 12 mm",
            "The diameter is 12mm.",
            "Approximately 12 mm (1.2 cm).",
            "12 millimeters",
            "Durchmesser: 12 mm",
            "The long axis is 12 mm, the short axis was not measured.",
            "**12 mm**",
            "12",
        ),
        None: ("10 to 14 mm", "12 x 8 mm", "cannot be measured"),
    },
}

VIEWS = ("Apical four-chamber", "Parasternal long axis", "Parasternal short axis", "Subcostal")
LUNGS = ("COVID-19", "Bacterial pneumonia", "Tuberculosis", "Healthy")
STAGES = ("Stage I", "Stage II", "Stage III", "Stage IV")
EYES = ("No retinopathy", "Mild retinopathy", "Moderate retinopathy", "Severe retinopathy", "Proliferative retinopathy")
TISSUES = ("Adenocarcinoma", "Squamous cell carcinoma", "Lymphocytes", "Smooth muscle", "Mucus")
LINES = ("Endotracheal tube", "Central venous catheter", "Nasogastric tube", "Chest drain")

SECOND_CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    VIEWS: {
        "Apical four-chamber": (
            "The view shown is the apical four-chamber view, in which all chambers can be seen.",
            "Het juiste antwoord is A.",
            "A 4-chamber view from the apex: A",
            "Görüntü apikal; cevap A'dır.",
        ),
        "Parasternal long axis": (
            "PLAX, so (B).",
            "Based on the image, the correct answer is:\n\n**B. Parasternal long axis**",
            "Correct option: B\nConfidence: high",
            "Σωστή απάντηση: Β",
            "<answer>\nParasternal long axis view\n</answer>",
            '{"final": {"answer": "B"}}',
        ),
        "Subcostal": (
            "I'm confident that this is D.",
            "subcostal view.",
            "Neither parasternal nor apical, as the liver is in front: subcostal.",
        ),
        None: ("It is an echocardiogram.", "A parasternal view, long or short axis."),
    },
    LUNGS: {
        "COVID-19": (
            "Peripheral ground-glass opacities in both lower lobes; findings favour COVID-19 over bacterial pneumonia.",
            "covid 19",
            "Most consistent with COVID-19 (option A).",
            "Answer: A\n\nReasoning: Tuberculosis would show cavities in the apices.",
        ),
        "Bacterial pneumonia": (
            "Lobar consolidation = bacterial pneumonia",
            "Bakterielle Pneumonie, also B.",
            "Prediction: 1 (zero-based), i.e. bacterial pneumonia",
            "I initially considered tuberculosis, but the final answer is B.",
        ),
        "Healthy": (
            "The lungs are healthy.",
            "D. Healthy. No consolidation, no cavities.",
            "Healthy lungs without signs of COVID-19, pneumonia or tuberculosis",
            "Ответ: D (Healthy)",
        ),
        None: (
            "Pneumonia, either COVID-19 or bacterial.",
            "The image quality does not allow a diagnosis.",
            "Probably not tuberculosis.",
            "COVID-19? No.",
        ),
    },
    STAGES: {
        "Stage II": ("Stage 2", "stage II (T2N0M0)", "It's II.", "The tumour is in stage II, not yet in stage III."),
        "Stage IV": ("Stage IV because of the liver metastases", "IV"),
        None: ("At least stage II.", "Stage V", "Advanced stage."),
    },
    EYES: {
        "No retinopathy": ("There is no retinopathy.", "No sign of retinopathy, hence A.", "no diabetic retinopathy"),
        "Moderate retinopathy": (
            "Moderate NPDR, option C",
            "moderate",
            "More than mild but less than severe: moderate retinopathy.",
        ),
        "Proliferative retinopathy": ("PDR, therefore E", "E: neovascularisation at the disc", "Proliferative."),
        None: ("Retinopathy is present.", "Mild to moderate retinopathy."),
    },
    TISSUES: {
        "Squamous cell carcinoma": (
            "Keratin pearls point to squamous cell carcinoma; glands, as in adenocarcinoma, are absent.",
            "Class: squamous cell carcinoma (B)",
            "squamous-cell carcinoma, moderately differentiated",
        ),
        "Smooth muscle": ("Smooth muscle (D), not mucus (E)", "This patch contains smooth muscle fibres."),
        None: ("Carcinoma.", "A mixture of lymphocytes and mucus."),
    },
    LINES: {
        "Chest drain": (
            "A chest drain on the right side.",
            "D!",
            "The device is a chest drain, the other three are not there.",
        ),
        "Nasogastric tube": ("C — the tip lies below the diaphragm", "It is the nasogastric tube that is misplaced."),
        None: ("A tube.", "The endotracheal tube and the nasogastric tube are both in place."),
    },
}

SECOND_YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Is there a fracture?": {
        "Yes": (
            "There is a fracture of the distal radius.",
            "Yes - distal radius.",
            "Evet",
            "A fracture line is visible.",
            "Yes, I can see one.",
            "A displaced fracture is seen.",
            "Ja, es liegt eine Fraktur vor.",
        ),
        "No": (
            "No fracture or dislocation.",
            "None seen.",
            "The bones are intact, no fracture.",
            "Nein, keine Fraktur.",
            "I see no evidence of a fracture.",
            "There does not appear to be a fracture.",
        ),
        None: ("A CT is recommended.", "Fracture cannot be excluded.", "There may be a fracture."),
    },
    "Does the image show the kidney?": {
        "Yes": ("The image shows the kidney.", "It does.", "Yes, the left one."),
        "No": ("The image shows the liver, not the kidney.", "It doesn't.", "No, that is the spleen."),
        None: ("The image shows the abdomen.",),
    },
}

SECOND_NUMBERS: dict[str | None, dict[float | None, tuple[str, ...]]] = {
    None: {
        4: ("There are 4.", "four lesions", "Four (4)", "Total: 4", "I can see 4 stones in the gallbladder."),
        1: ("One.", "a single stone", "Only 1."),
        None: ("many", "at least 3"),
    },
    "cm": {
        3.5: (
            "3.5 cm",
            "35 mm",
            "3,5 cm",
            "The mass measures 3.5 cm in its largest diameter.",
            "~3.5cm",
            "3.5 centimetres",
        ),
        None: ("3 x 4 cm", "3-4 cm"),
    },
}

JOINTS = ("Shoulder", "Elbow", "Wrist", "Hip", "Knee")
VESSELS = ("Aorta", "Inferior vena cava", "Portal vein", "Hepatic artery")
BLEEDS = ("Epidural hematoma", "Subdural hematoma", "Subarachnoid hemorrhage", "No hemorrhage")
DEVICES = ("0", "1", "2", "3 or more")
PARTS = ("upper lobe", "middle lobe", "lower lobe")
CELLS = ("Neutrophil", "Eosinophil", "Basophil", "Monocyte")

THIRD_CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    JOINTS: {
        "Shoulder": ("This radiograph shows a shoulder joint.", "A (shoulder)", "Skulder. Svar: A"),
        "Wrist": (
            "The X-ray depicts the wrist, as the carpal bones show.",
            "C because eight small bones are visible",
            "Le poignet, donc C",
            "<|begin_of_box|>C<|end_of_box|>",
        ),
        "Knee": (
            "[E] Knee",
            "It's a knee MRI in the sagittal plane.",
            "e)",
            "Option E is the best answer, since the patella is visible.",
            "knee joint",
        ),
        None: ("A joint.", "Either hip or knee."),
    },
    VESSELS: {
        "Aorta": ("the abdominal aorta", "Answer: Aorta (pulsatile, left of the midline)"),
        "Inferior vena cava": (
            "IVC (B)",
            "The structure marked by the arrow is the inferior vena cava, which lies to the right of the aorta.",
            '{"reason": "collapsible", "choice": "Inferior vena cava"}',
        ),
        "Portal vein": (
            "My answer is C. The hepatic artery lies in front of it.",
            "portal vein, not hepatic artery",
            "✔ Portal vein",
            "The most probable option would be the portal vein.",
        ),
        None: (
            "A vessel of the liver.",
            "Portal vein or hepatic artery",
            "Both the aorta and the inferior vena cava are shown.",
        ),
    },
    BLEEDS: {
        "Epidural hematoma": (
            "Biconvex, hence an epidural haematoma.",
            "Lens-shaped collection that does not cross sutures: epidural. Subdural would be crescent-shaped.",
        ),
        "Subdural hematoma": (
            "B, subdural haematoma",
            "Acute subdural hematoma along the left convexity with midline shift.",
            "Not epidural but subdural hematoma",
        ),
        "No hemorrhage": (
            "No hemorrhage is seen.",
            "There is no intracranial hemorrhage.",
            "Normal CT, no haemorrhage -> D",
        ),
        None: ("A hematoma is present.", "There is some blood, but I can't tell where."),
    },
    DEVICES: {
        "0": ("No devices (0)", "A: 0"),
        "2": ("Two", "There are two devices: a pacemaker and a port.", "C. 2"),
        "3 or more": ("four", "At least 3", "D (5 devices)"),
        None: ("several",),
    },
    PARTS: {
        "lower lobe": (
            "right lower lobe",
            "C: in the lower lobe, not the upper lobe",
            "It lies in the lower lobe of the left lung.",
        ),
        None: ("In the right lung.", "upper or middle lobe"),
    },
    CELLS: {
        "Eosinophil": (
            "Bilobed nucleus with bright orange granules: eosinophil.",
            "An eosinophilic granulocyte, B",
            "I would classify this cell as an eosinophil.",
            "Answer: B. A neutrophil has more lobes and pale granules.",
        ),
        "Monocyte": ("Monocyte.\n\nThe kidney-shaped nucleus is characteristic.", "monocytes"),
        None: ("A white blood cell.", "It is not a basophil."),
    },
}

THIRD_YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Are there gallstones?": {
        "Yes": ("Multiple gallstones are seen.", "Yes, there are.", "Oui.", "There are two gallstones.", "(A) Yes"),
        "No": ("No gallstones are visible.", "The gallbladder is free of stones, so no.", "Não.", "There are none."),
        None: ("The gallbladder is not shown.", "It is possible."),
    },
    "Is the lesion malignant?": {
        "Yes": ("The lesion is malignant.", "Most likely yes.", "Yes; its margins are spiculated."),
        "No": ("It is benign.", "The lesion appears benign.", "No, it's a cyst.", "Not malignant."),
        None: ("A biopsy would tell.",),
    },
}

THIRD_NUMBERS: dict[str | None, dict[float | None, tuple[str, ...]]] = {
    None: {2: ("2 fetuses", "Twins: 2", "The answer is two.", "dos"), None: ("a few", "one to three")},
    "ml": {50: ("50 ml", "50 mL.", "0.05 l", "The volume is estimated at 50 ml.", "50 cc"), None: ("less than 50 ml",)},
}

GUTS = ("Crohn's disease", "Ulcerative colitis", "Diverticulitis", "Normal bowel")
POLYPS = ("Hyperplastic polyp", "Adenomatous polyp", "Sessile serrated lesion", "No polyp")
BONES = ("Osteosarcoma", "Ewing sarcoma", "Giant cell tumor", "Osteomyelitis")
DOSES = ("less than 5 mm", "5-10 mm", "more than 10 mm")
FETAL = ("Head", "Abdomen", "Femur", "Spine")

FOURTH_CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    GUTS: {
        "Crohn's disease": (
            "Crohn disease, most likely.",
            "The skip lesions and the terminal ileum involvement suggest Crohn's disease.",
            "Option: A",
            "A - because of the cobblestone pattern",
            "<answer>A: Crohn's disease</answer> This is only a guess.",
        ),
        "Ulcerative colitis": (
            "UC = B",
            "ulcerative colitis rather than Crohn's",
            "Continuous involvement from the rectum upwards. My diagnosis: ulcerative colitis",
            "B\n\nExplanation:\nA: skip lesions are missing.\nC: no diverticula.\nD: the mucosa is inflamed.",
            "Réponse correcte : B (rectocolite hémorragique)",
        ),
        "Normal bowel": ("The bowel is normal.", "Normal.", "D. Everything looks normal here."),
        None: ("Inflammatory bowel disease.", "A colonoscopy image.", "Could be A, could be B."),
    },
    POLYPS: {
        "Adenomatous polyp": (
            "An adenoma, i.e. (B) adenomatous polyp.",
            "NICE type 2 pattern => adenomatous",
            "It isn't hyperplastic; it's an adenomatous polyp.",
            "The polyp is adenomatous.",
        ),
        "No polyp": ("No polyp is present.", "There are no polyps.", "D — no polyp"),
        None: ("There is a polyp.", "Hyperplastic or adenomatous polyp"),
    },
    BONES: {
        "Osteosarcoma": (
            "Sunburst periosteal reaction: osteosarcoma.",
            "Osteosarcoma (confidence 0.9)",
            "I lean towards osteosarcoma.",
            "The correct choice is (A)",
        ),
        "Ewing sarcoma": (
            "Ewing's sarcoma",
            "Onion-skin periosteum, so Ewing sarcoma rather than osteosarcoma.",
            "**Option B**",
        ),
        "Osteomyelitis": (
            "D. Osteomyelitis; a tumor is unlikely.",
            "Among the options, osteomyelitis fits best.",
            "Answer choice D",
            "OSTEOMYELITIS",
        ),
        None: ("A bone tumor.", "Not A."),
    },
    DOSES: {
        "5-10 mm": ("7 mm", "between 5 and 10 mm", "B, about 8 mm", "5 to 10 mm"),
        "more than 10 mm": (">10 mm", "larger than 10 mm", "12 mm, so C"),
        None: ("The size cannot be measured.",),
    },
    FETAL: {
        "Head": (
            "fetal head",
            "The plane shows the fetal head with the thalami.",
            "Kopf (A)",
            "A, the head circumference plane",
        ),
        "Femur": ("Femur length plane", "C. Femur!", "The long bone is the femur."),
        None: ("A fetus.", "head and abdomen"),
    },
}

FOURTH_YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Is the trachea midline?": {
        "Yes": ("The trachea is midline.", "Yes, it is.", "It is in the midline."),
        "No": (
            "No, it is shifted to the left.",
            "The trachea is not midline.",
            "The trachea is deviated to the right.",
        ),
        None: ("The trachea is not included in the image.",),
    },
    "Does this patient have a pacemaker?": {
        "Yes": ("A pacemaker is seen on the left.", "Yes, with two leads.", "是，有。"),
        "No": ("No pacemaker is seen.", "No device.", "He does not.", "No."),
        None: ("Maybe.",),
    },
}

FOURTH_NUMBERS: dict[str | None, dict[float | None, tuple[str, ...]]] = {
    None: {5: ("5 ribs", "I count five.", "Answer: **5**"), None: ("five or six",)},
    "mm": {8: ("8 mm in diameter", "0.8 cm", "The nodule is 8 mm.", "8.0"), None: ("under 8 mm",)},
}
