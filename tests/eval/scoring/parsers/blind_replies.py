"""Two lists of 120 odd replies each, by somebody who knew no rule, with the reading of a careful person; None is doubt.

Of the 96 replies of each list that such a person reads, the first try left 13 of ONE unread (6 of 47 choices, 1 of 24
yes or no, 2 of 17 numbers, 4 of 8 sets of labels), with 1 wrong, and 24 of TWO (11, 6, 3 and 4), with 1 invented. The
kinds that ONE showed were mended first: of TWO, held back until then, 20 stayed unread (9, 5, 2 and 4), with 1 invented
and 1 wrong. Then the kinds that TWO showed were mended.
"""

DEBATED = ("0.60",)
"""The list wants 60 where a percentage is asked; the prompt names the unit, and there are shares below one percent."""

ONE_CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    ("Adenoma", "Haemangioma", "Focal nodular hyperplasia", "Metastasis"): {
        "Haemangioma": (
            "**B**",
            "B. Haemangioma",
            (
                "The correct answer is:\n\n**B. Haemangioma**\n\nPeripheral nodular enhancement with "
                "centripetal fill-in is typical. An adenoma (A) would enhance homogeneously."
            ),
            "答案:B",
            "根据图像,病灶呈周边结节状强化,符合血管瘤的表现,因此选B。",
            "La respuesta correcta es la B.",
            "$\\boxed{B}$",
            '{"answer": "B", "explanation": "bright on T2, no washout"}',
            "I cannot give a definitive diagnosis, but the appearance is most consistent with a haemangioma.",
            "Hepatic hemangioma",
        ),
        None: (
            "A. Haemangioma",
            (
                "<think>Let me look at the picture. The lesion is hyperintense on T2, so it may be B, but it "
                "may also be D. I need to check the"
            ),
            "It could be either A or C; the image alone does not separate the two.",
            "I'm sorry, but I can't provide a medical diagnosis. Please consult a radiologist.",
        ),
        "Focal nodular hyperplasia": (
            "正确答案是 C。",
            "Réponse : C",
            "The final answer is \\boxed{\\text{C. Focal nodular hyperplasia}}.",
            (
                "<think>The lesion shows a central scar. Could be A, adenoma? No, adenomas seldom have a scar. "
                "So FNH.</think>\n<answer>C</answer>"
            ),
        ),
        "Metastasis": (
            "Antwort: D",
            '```json\n{\n  "reasoning": "Multiple lesions of varying size.",\n  "answer": "D"\n}\n```',
        ),
    },
    ("CT", "MRI", "Ultrasound", "X-ray"): {
        "MRI": (
            "1. B",
            "Q: Which imaging modality was used?\nA: MRI",
            "A. CT ❌\nB. MRI ✅\nC. Ultrasound ❌\nD. X-ray ❌",
            "The image is an MRI scan of the brain, not a CT scan.",
            "Magnetic resonance imaging (T2-weighted)",
        ),
        "X-ray": (
            (
                "Question: Which imaging modality was used to acquire this image?\nA. CT\nB. MRI\nC. "
                "Ultrasound\nD. X-ray\nAnswer: D"
            ),
            "→ D",
            "This is a chest X-ray.",
        ),
        None: ("A. CT\nB. MRI\nC. Ultrasound\nD. X-ray", "B. CT"),
        "Ultrasound": (
            "- [ ] A. CT\n- [ ] B. MRI\n- [x] C. Ultrasound\n- [ ] D. X-ray",
            "A. CT\nB. MRI\n**C. Ultrasound**\nD. X-ray",
        ),
        "CT": ("The image is a CT scan, acquired after contrast. MRI would have shown better soft-tissue contrast.",),
    },
    ("Left upper lobe", "Left lower lobe", "Right upper lobe", "Right lower lobe"): {
        "Right upper lobe": (
            "The nodule is in the right upper lobe, just above the minor fissure.",
            "RUL",
            "Option (c)",
        ),
        "Right lower lobe": (
            "Right lung, lower lobe",
            "At first I thought B, but on a closer look the correct answer is D.",
        ),
        None: ("The nodule lies in the upper lobe.",),
        "Left upper lobe": (
            ("**Answer:** A\n\n**Explanation:** The opacity projects over the left apex, i.e. the left upper lobe."),
        ),
    },
    ("Pneumothorax", "Pleural effusion", "Consolidation", "No abnormality"): {
        "Pleural effusion": (
            (
                "The chest X-ray shows a large left-sided pleural effusion with a meniscus sign. There is no "
                "pneumothorax."
            ),
        ),
        "Consolidation": ("The main abnormality is a consolidation, with a small accompanying pleural effusion.",),
        None: ("There is both a pneumothorax and a pleural effusion.", "None of the above."),
        "No abnormality": ("The lungs are clear and no abnormality is seen.",),
        "Pneumothorax": (
            (
                "| Option | Likely? |\n|---|---|\n| A. Pneumothorax | Yes |\n| B. Pleural effusion | No |\n| "
                "C. Consolidation | No |\n| D. No abnormality | No |"
            ),
        ),
    },
    ("Axial", "Coronal", "Sagittal"): {
        "Axial": ("Based on the image, it is a transverse (axial) section.",),
        "Coronal": ("The image is shown in the coronal plane (B).",),
        None: ("The correct choice is A, coronal.",),
    },
    ("Glioblastoma", "Meningioma", "Abscess", "Metastasis", "Lymphoma"): {
        "Meningioma": (
            (
                "Let's go through the options:\nA. Glioblastoma – would show necrosis; not seen.\nB. "
                "Meningioma – extra-axial, dural tail; fits the picture.\nC. Abscess – no restricted "
                "diffusion.\nD. Metastasis – usually multiple.\nE. Lymphoma – usually periventricular.\n\n"
                "Therefore, the answer is B."
            ),
        ),
        "Glioblastoma": ("Glioblastoma is the most likely diagnosis; metastasis and abscess are in the differential.",),
        None: (
            ("The differential includes glioblastoma, metastasis and lymphoma. Clinical correlation is recommended."),
            "F. Cavernoma",
        ),
        "Metastasis": ("D - Metastasis (confidence: 85%)",),
        "Lymphoma": ("I would go with E, although B cannot be fully excluded.",),
    },
    ("Scaphoid fracture", "Distal radius fracture", "Lunate dislocation", "No fracture"): {
        "Distal radius fracture": ("Es handelt sich um Antwort B (distale Radiusfraktur).",),
        None: ("The X-ray shows a fracture.",),
        "Scaphoid fracture": ("Final Answer: A) Scaphoid fracture<|im_end|>",),
        "No fracture": ("No acute fracture or dislocation is identified.",),
    },
    ("Melanoma", "Melanocytic naevus", "Seborrhoeic keratosis", "Basal cell carcinoma"): {
        "Basal cell carcinoma": ("Selected option: {D}",)
    },
}

ONE_YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Is there a pleural effusion?": {
        "Yes": (
            "Yes.",
            "There is a moderate right-sided pleural effusion.",
            "是的,右侧可见胸腔积液。",
            "Ja, rechts besteht ein Erguss.",
            "Sí",
        ),
        "No": (
            "No, there is no pleural effusion.",
            "The costophrenic angles are sharp, with no evidence of pleural effusion.",
            "没有。",
            "Non, aucun épanchement pleural n'est visible.",
        ),
        None: ("It cannot be determined from this image.",),
    },
    "Is the heart enlarged?": {
        "Yes": (
            "**Yes**, the heart is enlarged (cardiothoracic ratio about 0.58).",
            '{"answer": "yes"}',
            "The heart appears enlarged.",
        ),
        "No": ("<answer>no</answer>", "\\boxed{\\text{No}}", "The heart size is normal.", "Is the heart enlarged? No."),
        None: (
            "Yes or no",
            "As an AI language model I am not able to interpret medical images.",
            "Is the heart enlarged? Answer yes or no.",
        ),
    },
    "Is there a fracture?": {
        "Yes": (
            "Yes, there appears to be a fracture of the distal radius; no dislocation is seen.",
            (
                "Hmm, at first glance no, but looking again there is a cortical break in the distal radius. So "
                "the answer is yes."
            ),
            ("<think>I see a lucent line. Is it a vessel? It reaches the cortex. So it's a fracture.</think>\n\nYes"),
            "✅ Yes\n❌ No",
        ),
        None: ("A fracture may or may not be present; further views are needed.",),
        "No": ("No obvious fracture is seen.", "Answer: N"),
    },
    "Is there midline shift?": {
        "No": ("There is no significant midline shift.",),
        None: ("The image shows a CT scan of the head.",),
        "Yes": ("Correct, there is a midline shift to the left of about 6 mm.",),
    },
}

ONE_NUMBERS: dict[tuple[str, str | None], dict[float | None, tuple[str, ...]]] = {
    ("What is the greatest diameter of the nodule?", "mm"): {
        12: ("12 mm", "The nodule measures approximately 1.2 cm in diameter."),
        8: ("About 8",),
        14: ("The nodule measures 14 x 11 mm.",),
        9.5: ("**Answer: 9.5 mm**",),
        None: ("Between 5 and 20 mm.", "The size cannot be measured because there is no scale on the image."),
    },
    ("What is the attenuation of the lesion?", "HU"): {
        -15: ("The mean attenuation is about -15 HU, which suggests fat.",),
        -90: ("−90 HU",),
    },
    ("What is the longest dimension of the mass?", "cm"): {
        3.5: ("直径约3.5厘米",),
        4.5: ("45 mm",),
        3.2: ("Etwa 3,2 cm",),
    },
    ("What is the left ventricular ejection fraction?", "%"): {55: ("The LVEF is estimated at 55%.",), 60: ("0.60",)},
    ("What is the gestational age on this ultrasound?", "weeks"): {
        20: ("20 weeks",),
        22: ("The gestational age is twenty-two weeks.",),
    },
    ("How many lesions are visible?", None): {
        3: ("There are three lesions in the right lobe.",),
        None: ("Multiple lesions are visible.",),
        4: ("$\\boxed{4}$",),
    },
    ("What is the BI-RADS category?", None): {4: ("BI-RADS 4",)},
}

ONE_SETS: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    ("Cardiomegaly", "Pleural effusion", "Pneumothorax", "Consolidation", "Nodule"): {
        "Cardiomegaly; Pleural effusion": (
            "Cardiomegaly, Pleural effusion",
            "The image shows cardiomegaly and a small pleural effusion. No pneumothorax or consolidation.",
        ),
        "Pleural effusion; Consolidation": ("- Pleural effusion\n- Consolidation",),
        "Nodule": ('["Nodule"]',),
        "none": ("None of the listed findings are present.",),
        None: (
            "I'm unable to interpret this image.",
            "Findings to check: Cardiomegaly, Pleural effusion, Pneumothorax, Consolidation, Nodule.",
        ),
        "Cardiomegaly; Consolidation": (
            ("- Cardiomegaly: yes\n- Pleural effusion: no\n- Pneumothorax: no\n- Consolidation: yes\n- Nodule: no"),
        ),
        "Cardiomegaly; Nodule": (
            "☑ Cardiomegaly\n☐ Pleural effusion\n☐ Pneumothorax\n☐ Consolidation\n☑ Nodule",
            "存在以下表现:Cardiomegaly 和 Nodule。",
        ),
    }
}

TWO_CHOICES: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    ("Adenoma", "Haemangioma", "Focal nodular hyperplasia", "Metastasis"): {
        "Haemangioma": (
            "选项B",
            "选择:(B)血管瘤",
            "我认为最可能的诊断是肝血管瘤(Haemangioma)。",
            "Die richtige Lösung lautet (B).",
            "Respuesta correcta: **B) Hemangioma**",
            "Ответ: B",
            "<|begin_of_box|>B<|end_of_box|>",
            "Most likely a haemangioma rather than a metastasis.",
            "The lesion mimics a metastasis but is in fact a haemangioma.",
            "A haemangioma is the most likely diagnosis.",
            "Correct answer: B\nIncorrect answers: A, C, D",
        ),
        "Metastasis": (
            "本题应选D,其余选项均不符合。",
            "La bonne réponse est l'option D : métastase.",
            "<option>D</option>",
        ),
        "Focal nodular hyperplasia": (
            "正解はCです。",
            "[ANSWER]C[/ANSWER]",
            "\\[ \\boxed{\\mathrm{C}} \\]",
            (
                "### Diagnosis\nFocal nodular hyperplasia (FNH)\n\n### Rationale\n- Central scar\n- "
                "Homogeneous arterial enhancement\n- Unlike adenoma, no haemorrhage or fat"
            ),
            (
                "I think this is a haemangioma. Wait, the scar is central and enhances late, so it's focal "
                "nodular hyperplasia."
            ),
        ),
        None: (
            "The answer is C (adenoma).",
            "**D. Focal nodular hyperplasia**",
            "B or C",
            "A, B, C, D",
            (
                "In a patient with a known primary tumour this would suggest metastasis, but the patient's "
                "history isn't given."
            ),
            "A benign lesion is seen in the right lobe of the liver.",
        ),
    },
    ("CT", "MRI", "Ultrasound", "X-ray"): {
        "MRI": ('{"A": 0.05, "B": 0.90, "C": 0.03, "D": 0.02}', "=> B", "ASSISTANT: B. MRI</s>"),
        "Ultrasound": (
            '{"choice": "C", "label": "Ultrasound"}',
            "C.\n\nC. Ultrasound\n\nC",
            "Sonography, showing a gallstone with acoustic shadow.",
        ),
        "X-ray": ("answer: d", "This looks like a plain radiograph (X-ray); CT is recommended for further evaluation."),
        "CT": ("The letter is A", "Q1: A", "Computed tomography of the abdomen after intravenous contrast."),
        None: (
            (
                "USER: <image>\nWhich imaging modality was used to acquire this image?\nA. CT\nB. MRI\nC. "
                "Ultrasound\nD. X-ray\nAnswer with the option's letter from the given choices directly. "
                "ASSISTANT:"
            ),
            "I don't see an image attached. Could you please upload it?",
        ),
    },
    ("Left upper lobe", "Left lower lobe", "Right upper lobe", "Right lower lobe"): {
        "Right upper lobe": (
            "1) Left upper lobe ✗\n2) Left lower lobe ✗\n3) Right upper lobe ✓\n4) Right lower lobe ✗",
            "~~A~~ C",
        ),
        "Left lower lobe": (
            "Left upper lobe: No\nLeft lower lobe: Yes\nRight upper lobe: No\nRight lower lobe: No",
            "The nodule is located in the Left Lower Lobe of the lung. The right lung is clear.",
        ),
        None: ("It is on the left side.",),
    },
    ("Pneumothorax", "Pleural effusion", "Consolidation", "No abnormality"): {
        "Pneumothorax": ("Pneumothorax on the right, most visible at the apex, with partial collapse of the lung.",),
        None: ("Answer: B / C", "Option A is incorrect."),
        "Pleural effusion": (
            "The most likely answer is B. If that is wrong, C would be my second choice.",
            "Es zeigt sich ein Pleuraerguss links, kein Pneumothorax. Somit Antwort B.",
        ),
        "Consolidation": ("Options A, B and D can be ruled out. That leaves C.",),
    },
    ("Axial", "Coronal", "Sagittal"): {"Coronal": ("Frontal (coronal) view",)},
    ("Glioblastoma", "Meningioma", "Abscess", "Metastasis", "Lymphoma"): {
        "Meningioma": (
            (
                "Step 1: The mass is extra-axial.\nStep 2: It enhances homogeneously.\nStep 3: A dural tail is "
                "visible.\n\n#### B"
            ),
        ),
        "Abscess": ("Reasoning: ring-enhancing lesion with restricted diffusion centrally.\nConclusion: abscess",),
        "Glioblastoma": (
            (
                "<think>\nThe user wants one letter. Ring enhancement, thick irregular wall. A seems best; D "
                "is possible when multiple, but only one lesion.\n</think>\n\nThe lesion is a **glioblastoma** "
                "with thick, irregular ring enhancement."
            ),
            "Ranking: 1. Glioblastoma 2. Metastasis 3. Lymphoma",
        ),
    },
    ("Scaphoid fracture", "Distal radius fracture", "Lunate dislocation", "No fracture"): {
        "Scaphoid fracture": ("There is a fracture of the scaphoid waist.",)
    },
    ("Melanoma", "Melanocytic naevus", "Seborrhoeic keratosis", "Basal cell carcinoma"): {
        None: ("This is not a melanoma.",)
    },
    ("No retinopathy", "Mild", "Moderate", "Severe", "Proliferative"): {
        "Severe": ("Severe non-proliferative diabetic retinopathy",),
        None: ("Mild to moderate",),
    },
    ("Adenocarcinoma", "Squamous cell carcinoma", "Small cell carcinoma", "Carcinoid"): {
        "Squamous cell carcinoma": ("SCC with keratin pearls and intercellular bridges",)
    },
    ("Liver", "Spleen", "Left kidney", "Pancreas"): {
        "Spleen": ("The liver, right kidney and pancreas are normal, but the spleen is markedly enlarged.",)
    },
}

TWO_YES_NO: dict[str, dict[str | None, tuple[str, ...]]] = {
    "Does the scan show a pulmonary embolism?": {
        "Yes": (
            "YES",
            "Answer: Yes, a filling defect is present in the right main pulmonary artery.",
            "Filling defects in both main pulmonary arteries confirm a pulmonary embolism.",
            "答案:是",
            "Oui",
        ),
        "No": (
            "no.",
            "A pulmonary embolism is ruled out.",
            "否",
            "图像中未见肺栓塞征象。",
            "Nein, die Pulmonalarterien sind frei.",
        ),
        None: ("A pulmonary embolism cannot be ruled out.", "不能确定,建议进一步检查。"),
    },
    "Is the tumour malignant?": {
        "No": ("It is benign.", "Probably not.", "**No** – the lesion has smooth margins and macroscopic fat."),
        "Yes": (
            "Likely yes, given the irregular margins.",
            '{"malignant": true}',
            "True",
            "There's no doubt that the tumour is malignant.",
        ),
        None: (
            "Yes and no: some parts look benign, others malignant.",
            "Biopsy is needed to tell whether it's benign or malignant.",
        ),
    },
    "Was contrast given?": {
        "Yes": (
            "Yes, intravenous contrast was given, and no plain series is shown.",
            "The aorta is brightly enhanced, so contrast was administered.",
            "[x] Yes  [ ] No",
        ),
        "No": (
            "This is a non-contrast CT.",
            "The final answer is: no",
            "Yes.\n\nActually, on review the vessels are not enhanced, so the answer is no.",
            "Without contrast.",
        ),
        None: (
            "Contrast agents help to delineate vessels and tumours.",
            "<think>The vessels look bright. So yes, contrast was",
        ),
    },
}

TWO_NUMBERS: dict[tuple[str, str | None], dict[float | None, tuple[str, ...]]] = {
    ("What is the greatest diameter of the nodule?", "mm"): {
        15: ("~15mm",),
        None: ("Nodules under 6 mm usually need no follow-up, while those over 8 mm do.", "The nodule is small."),
        23: ("2,3 cm",),
        7: ("The nodule in image 3 measures 7 mm.",),
        18: ("Size: 18 mm (previously 13 mm)",),
    },
    ("What is the attenuation of the lesion?", "HU"): {
        45: ("Attenuation: 45 HU (range 30 to 60)",),
        -80: ("minus 80 Hounsfield units",),
        35: ("The attenuation is \\( 35\\,\\text{HU} \\).",),
    },
    ("What is the longest dimension of the mass?", "cm"): {
        5.2: ("5.2 × 4.8 × 4.1 cm",),
        3.8: ("The mass measures 38mm (3.8 cm).",),
    },
    ("What is the left ventricular ejection fraction?", "%"): {
        35: ('{"LVEF": "35%"}',),
        None: ("The ejection fraction is reduced.",),
    },
    ("What is the cardiothoracic ratio?", "%"): {50: ("CTR = 14 cm / 28 cm = 50 %",)},
    ("What is the gestational age on this ultrasound?", "weeks"): {
        24: ("孕周约为24周",),
        32: ("About 32 weeks of gestation, based on a biparietal diameter of 80 mm",),
    },
    ("How many lesions are visible?", None): {
        2: ("Two",),
        5: ("I count 1, 2, 3, 4, 5. So five lesions.",),
        1: ("There is a single lesion in segment 7.",),
    },
    ("What is the Cobb angle?", "degrees"): {32: ("The Cobb angle is 32°.",)},
}

TWO_SETS: dict[tuple[str, ...], dict[str | None, tuple[str, ...]]] = {
    ("Cardiomegaly", "Pleural effusion", "Pneumothorax", "Consolidation", "Nodule"): {
        "Cardiomegaly; Nodule": ("Cardiomegaly and nodule",),
        "Pleural effusion; Pneumothorax": ("1. Pneumothorax\n2. Pleural effusion",),
        "Pleural effusion; Consolidation": ('{"findings": ["Consolidation", "Pleural effusion"]}',),
        "Cardiomegaly; Pleural effusion": (
            (
                '{"Cardiomegaly": true, "Pleural effusion": true, "Pneumothorax": false, "Consolidation": '
                'false, "Nodule": false}'
            ),
            (
                "| Finding | Present |\n|---|---|\n| Cardiomegaly | ✓ |\n| Pleural effusion | ✓ |\n| "
                "Pneumothorax | ✗ |\n| Consolidation | ✗ |\n| Nodule | ✗ |"
            ),
            (
                "The heart is enlarged (cardiomegaly). There is blunting of the right costophrenic angle, in "
                "keeping with a pleural effusion. The lungs are free of consolidation and nodules."
            ),
        ),
        "Consolidation": ("Present: Consolidation\nAbsent: Cardiomegaly, Pleural effusion, Pneumothorax, Nodule",),
        "Cardiomegaly; Pleural effusion; Consolidation; Nodule": ("All of them except pneumothorax.",),
        None: (
            "Either consolidation or a nodule; hard to say.",
            "The chest radiograph should be read by a qualified radiologist.",
        ),
    }
}
