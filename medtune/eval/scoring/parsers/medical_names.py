"""Knows the names of one medical thing: "PTX" and "气胸" are a pneumothorax, a "transverse" plane is axial.

A name in a reply is written as the options (or the question, or the labels) have it, if they have exactly one name of
the thing. A name that is a part of a longer one stays ("effusion" in "pericardial effusion"), and so does an
abbreviation of two things that both come into question ("PE").

Source: everyday usage of clinical reports in English, German, French, Spanish, Portuguese, Italian, Russian, Chinese
and Japanese; names that mean different things in different reports are left out.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import combinations

_NAMES: Sequence[str] = (
    # Modalities
    "ct|computed tomography|computerized tomography|computer tomography|computed axial tomography|cat scan|"
    "computertomograph*|computertomografie|tomodensitométrie|scanner|tomografía computarizada|tomografia "
    "computadorizada|"
    "tomografia computerizzata|tac|tdm|компьютерн* томограф*|计算机断层扫描|计算机断层|电脑断层|コンピュータ断層撮影",
    "mri|mr|mr imaging|magnetic resonance imaging|magnetic resonance|magnetresonanztomograph*|kernspintomograph*|"
    "mrt|irm|"
    "resonancia magnética|ressonância magnética|risonanza magnetica|rmn|мрт|магнитно-резонансн* томограф*|"
    "磁共振成像|磁共振|"
    "核磁共振|核磁",
    "ultrasound|ultrasonography|sonography|sonogram|ultrasonogram|ultrasonographic image|sonographic image|USG|"
    "ultraschall*|sonograph*|échographie|echographie|ecografía|ecografia|ultrassom|ultrassonografia|узи|"
    "ультразвуков* исследован*|超声波|超声|B超|超音波|エコー",
    "x-ray|xray|x ray|plain radiograph|radiograph|plain film|radiography|roentgenogram|röntgenbild|röntgenaufnahme|"
    "röntgen|"
    "radiographie|radiografía|radiografia|rentgen|рентгенограмм*|рентген|x线片|x光片|x线|x光|レントゲン写真|"
    "レントゲン|エックス線",
    "pet|positron emission tomography|positronen-emissions-tomograph*|正电子发射断层",
    "oct|optical coherence tomography|optische kohärenztomograph*|光学相干断层扫描|光学相干断层成像",
    "fundus photograph|fundus photography|fundus photo|fundus image|color fundus photograph|colour fundus "
    "photograph|眼底照相|眼底照片|眼底图像",
    "endoscopy|endoscopic image|endoscopic view|endoskopie|endoscopie|endoscopia|内镜|内窥镜|内視鏡",
    "histopathology|histology|histologic section|histological section|histological image|microscopy|h&e stain|"
    "组织病理学|"
    "病理切片|病理",
    "mammography|mammogram|mammographie|mamografía|mammografia|mamografia|乳腺钼靶|乳房x线摄影|マンモグラフィ",
    "dermoscopy|dermatoscopy|dermoscopic image|dermatoskopie|dermatoscopie|皮肤镜",
    "angiography|angiogram|arteriogram|angiographie|angiografía|血管造影",
    # Planes and views
    "axial|transverse|transversal|transaxial|axial slice|axiale|axiales|transversale|横断面|横断位|轴位|轴向|"
    "横切面|横断|水平断|"
    "аксиальн*|横轴位",
    "coronal|frontal|coronale|koronal*|koronar*|冠状面|冠状位|冠状|冠状断|корональн*|фронтальн*",
    "sagittal|sagital|sagittale|矢状面|矢状位|矢状|矢状断|сагиттальн*",
    "parasternal long axis|parasternal long-axis|PLAX|PSLAX|long-axis parasternal|胸骨旁长轴",
    "parasternal short axis|parasternal short-axis|PSAX|PSSAX|short-axis parasternal|胸骨旁短轴",
    "apical four-chamber|apical 4-chamber|apical four chamber|apical 4 chamber|A4C|AP4|4CH|4-chamber apical|"
    "apikaler vierkammerblick|心尖四腔心|心尖四腔",
    "apical two-chamber|apical 2-chamber|apical two chamber|apical 2 chamber|A2C|AP2|2CH|apikaler zweikammerblick|"
    "心尖二腔心|心尖两腔|心尖二腔",
    "apical three-chamber|apical 3-chamber|apical three chamber|apical long axis|A3C|APLAX|AP3|3CH|心尖三腔心|"
    "心尖三腔",
    "apical five-chamber|apical 5-chamber|apical five chamber|A5C|AP5|心尖五腔心|心尖五腔",
    "subcostal|subxiphoid|SC4C|剑突下",
    "suprasternal|SSN|胸骨上窝",
    "posteroanterior|posterior-anterior|PA|postero-anterior|PA view|PA projection|后前位",
    "anteroposterior|anterior-posterior|AP|antero-posterior|AP view|AP projection|前后位",
    "lateral view|lateral projection|lateral|seitlich|侧位",
    "craniocaudal|cranio-caudal|CC view|头尾位",
    "mediolateral oblique|medio-lateral oblique|MLO|内外斜位",
    # Sequences and phases
    "t1-weighted|t1 weighted|t1w|t1w image|t1|t1-gewichtet|t1-wi|t1wi|t1加权像|t1加权|t1强调画像|T1強調画像|"
    "T1強調|pondérée en t1|"
    "ponderada en t1",
    "t2-weighted|t2 weighted|t2w|t2w image|t2|t2-gewichtet|t2-wi|t2wi|t2加权像|t2加权|T2強調画像|T2強調|pondérée "
    "en t2|"
    "ponderada en t2",
    "flair|fluid-attenuated inversion recovery|fluid attenuated inversion recovery|t2-flair|t2 flair|"
    "液体衰减反转恢复",
    "diffusion-weighted|diffusion weighted|diffusion-weighted imaging|diffusion weighted imaging|DWI|diffusion|"
    "diffusionsgewichtet|弥散加权成像|弥散加权|扩散加权成像|扩散加权|拡散強調画像|拡散強調",
    "apparent diffusion coefficient|ADC map|ADC|表观扩散系数",
    "susceptibility-weighted|susceptibility weighted|susceptibility-weighted imaging|SWI|磁敏感加权成像|磁敏感加权",
    "post-contrast|postcontrast|post contrast|contrast-enhanced|contrast enhanced|with contrast|after contrast|with "
    "gadolinium|after gadolinium|"
    "post-gadolinium|post gadolinium|gadolinium-enhanced|gadolinium enhanced|post-gad|post gad|with gad|Gd+|+Gd|+C|"
    "C+|CE|with iv contrast|after contrast administration|"
    "mit kontrastmittel|nach kontrastmittelgabe|nach kontrastmittel|après injection|con contraste|après contraste|"
    "增强|增强后|造影",
    "non-contrast|noncontrast|non contrast|unenhanced|non-enhanced|without contrast|plain|native|nativ|precontrast|"
    "pre-contrast|no contrast|"
    "sans injection|sin contraste|平扫|非增强|单纯",
    "arterial phase|arterial|hepatic arterial phase|late arterial phase|arterielle phase|phase artérielle|fase "
    "arterial|动脉期|動脈相",
    "portal venous phase|portal venous|portal phase|PVP|portalvenöse phase|phase portale|fase portal|门静脉期|"
    "门脉期|門脈相",
    "delayed phase|delayed|equilibrium phase|late phase|spätphase|phase tardive|fase tardía|延迟期|平衡相",
    # What only begins like a name of another thing
    "frontal lobe|frontal bone|frontal sinus|frontal horn|frontal gyrus|frontal cortex|frontal lobes|frontal region",
    "transverse process|transverse processes|transverse colon|transverse sinus|transverse fracture|transverse diameter",
    "mass effect|air mass|muscle mass|bone mass|body mass",
    # Sides, places and numbers
    "left|left-sided|left sided|links|linksseitig|linke|linken|linker|linkes|linkem|gauche|à gauche|izquierda|"
    "izquierdo|esquerda|"
    "esquerdo|sinistra|sinistro|слева|лев*|左侧|左側|左边|左",
    "right|right-sided|right sided|rechts|rechtsseitig|rechte|rechten|rechter|rechtes|rechtem|droite|à droite|"
    "derecha|derecho|direita|"
    "direito|destra|destro|справа|прав*|右侧|右側|右边|右",
    "bilateral|bilaterally|both sides|on both sides|left and right|right and left|beidseits|beidseitig|bilatéral|"
    "bilatérale|des deux côtés|ambos lados|bilaterale|двусторонн*|с обеих сторон|双侧|両側|双边|两侧",
    "upper lobe|oberlappen|lobe supérieur|lóbulo superior|上叶|верхн* дол*",
    "lower lobe|unterlappen|lobe inférieur|lóbulo inferior|下叶|нижн* дол*",
    "middle lobe|mittellappen|lobe moyen|lóbulo medio|中叶|средн* дол*",
    # Organs
    "liver|leber|foie|hígado|fígado|fegato|печень|печени|肝脏|肝臓|肝",
    "spleen|milz|bazo|milza|baço|селезенка|селезёнка|селезенки|脾脏|脾臓|脾",
    "pancreas|bauchspeicheldrüse|pankreas|páncreas|pâncreas|поджелудочная железа|胰腺|膵臓|胰|pancreatic head|"
    "pancreatic "
    "tail|pancreatic body|"
    "head of the pancreas|tail of the pancreas|body of the pancreas",
    "kidney|niere|rein|riñón|rene|почка|почки|肾脏|腎臓|肾",
    "gallbladder|gall bladder|gallenblase|vésicule biliaire|vesícula biliar|colecisti|желчный пузырь|胆囊|胆嚢",
    "stomach|magen|estomac|estómago|estômago|stomaco|желудок|胃",
    "aorta|aorte|аорта|主动脉|大動脈",
    "bladder|urinary bladder|harnblase|vessie|vejiga|bexiga|vescica|мочевой пузырь|膀胱",
    "heart|herz|cœur|coeur|corazón|coração|cuore|сердце|心脏|心臓",
    "lung|lunge|poumon|pulmón|pulmão|polmone|легкое|легкие|肺脏|肺",
    "brain|gehirn|cerveau|cerebro|cérebro|cervello|головной мозг|мозг|脑|大脑|脳",
    "esophagus|oesophagus|speiseröhre|ösophagus|œsophage|esófago|esôfago|esofago|пищевод|食管|食道",
    "duodenum|zwölffingerdarm|duodénum|duodeno|十二指肠|十二指腸",
    "colon|dickdarm|côlon|结肠|大肠|結腸",
    "small bowel|small intestine|dünndarm|intestin grêle|intestino delgado|小肠",
    "adrenal gland|adrenal|nebenniere|surrénale|glándula suprarrenal|肾上腺|副腎",
    "inferior vena cava|IVC|vena cava inferior|下腔静脉|下大静脈",
    "portal vein|pfortader|veine porte|vena porta|门静脉|門脈",
    "uterus|gebärmutter|utérus|útero|子宫|子宮",
    "prostate|prostata|próstata|前列腺|前立腺",
    "thyroid|schilddrüse|thyroïde|tiroides|tireoide|tiroide|甲状腺",
    "left ventricle|LV|linker ventrikel|linke herzkammer|ventricule gauche|ventrículo izquierdo|ventrículo esquerdo|"
    "左心室|左室",
    "right ventricle|RV|rechter ventrikel|rechte herzkammer|ventricule droit|ventrículo derecho|ventrículo direito|"
    "右心室|右室",
    "left atrium|LA|linker vorhof|oreillette gauche|aurícula izquierda|左心房|左房",
    "right atrium|RA|rechter vorhof|oreillette droite|aurícula derecha|右心房|右房",
    "femur|thigh bone|oberschenkelknochen|fémur|股骨|大腿骨",
    "tibia|shin bone|schienbein|胫骨|脛骨",
    "humerus|oberarmknochen|humérus|húmero|肱骨|上腕骨",
    "radius|speiche|桡骨|橈骨",
    "clavicle|collarbone|collar bone|schlüsselbein|clavicule|clavícula|锁骨|鎖骨",
    "scaphoid|kahnbein|scaphoïde|escafoides|舟骨|舟状骨",
    # Chest
    "pneumothorax|pneumothoraces|PTX|collapsed lung|neumotórax|pneumotórax|pneumotorace|пневмоторакс*|气胸|氣胸|気胸",
    "pleural effusion|pleural effusions|effusion|effusions|pleural fluid|fluid in the pleural space|PE|pleuraerguss|"
    "pleuraerguß|pleuraergüsse|"
    "épanchement pleural|épanchement|derrame pleural|derrame|versamento pleurico|плевральн* выпот*|胸腔积液|胸水|"
    "胸膜腔积液",
    "pericardial effusion|perikarderguss|épanchement péricardique|derrame pericárdico|心包积液|心嚢液",
    "joint effusion|knee effusion|gelenkerguss|关节积液",
    "cardiomegaly|enlarged heart|enlarged cardiac silhouette|cardiac enlargement|enlarged cardiomediastinal "
    "silhouette|enlargement of the heart|"
    "enlargement of the cardiac silhouette|kardiomegalie|herzvergrößerung|cardiomégalie|cardiomegalia|кардиомегали*|"
    "心脏增大|心影增大|心脏扩大|心拡大",
    "pneumonia|pneumonias|pneumonic infiltrate|lungenentzündung|pneumonie|neumonía|polmonite|пневмони*|肺炎",
    "consolidation|consolidations|airspace consolidation|consolidative opacity|konsolidierung|konsolidation|"
    "consolidación|consolidação|consolidazione|консолидаци*|实变|肺实变|浸潤影",
    "atelectasis|atelectases|atelectatic changes|atelectatic change|volume loss|atelektase*|atélectasie|atelectasia|"
    "ателектаз*|肺不张|無気肺",
    "edema|oedema|pulmonary edema|pulmonary oedema|lung edema|lungenödem|ödem|œdème pulmonaire|œdème|edema pulmonar|"
    "edema polmonare|отек легких|отёк легких|отек|肺水肿|水肿|肺水腫",
    "emphysema|emphysematous changes|emphysem|emphysème|enfisema|эмфизем*|肺气肿|肺気腫",
    "nodule|nodules|nodular opacity|rundherd|lungenrundherd|nódulo|nodulo|узел|узелок|结节|結節",
    "mass|masses|raumforderung|masa|massa|образование|肿块|腫瘤",
    "fracture|fractures|broken bone|fraktur|frakturen|fractura|fratura|frattura|перелом*|骨折",
    "rib fracture|rib fractures|broken rib|broken ribs|rippenfraktur*|rippenbruch|fracture de côte|fractura costal|"
    "肋骨骨折",
    "dislocation|luxation|luxación|lussazione|вывих*|脱位|脱臼",
    "hiatal hernia|hiatus hernia|hiatushernie|hernia de hiato|食管裂孔疝",
    "tuberculosis|TB|tuberkulose|tuberculose|tubercolosi|туберкулез*|туберкулёз*|肺结核|结核|結核",
    "pulmonary embolism|pulmonary emboli|pulmonary embolus|lung embolism|PE|lungenembolie|embolie pulmonaire|"
    "embolia pulmonar|тромбоэмболи* легочной артерии|тэла|肺栓塞|肺塞栓",
    "pulmonary fibrosis|lung fibrosis|lungenfibrose|fibrose pulmonaire|肺纤维化",
    "pleural thickening|pleuraverdickung|épaississement pleural|胸膜增厚",
    "lung opacity|lung opacities|pulmonary opacity|airspace opacity|airspace opacities|肺部阴影",
    "chronic obstructive pulmonary disease|COPD|BPCO|EPOC|DPOC|慢性阻塞性肺疾病|慢阻肺",
    # Devices
    "endotracheal tube|ETT|ET tube|endotracheal tubes|intubation tube|endotrachealtubus|sonde endotrachéale|tubo "
    "endotraqueal|气管插管|气管导管|挿管チューブ",
    "nasogastric tube|NGT|NG tube|nasogastric tubes|feeding tube|enteric tube|magensonde|sonde nasogastrique|sonda "
    "nasogástrica|鼻胃管|胃管",
    "central venous catheter|CVC|central line|central venous line|CVL|central lines|central catheter|ij line|ij "
    "catheter|ij central line|internal jugular line|internal jugular catheter|"
    "zvk|zentraler venenkatheter|cathéter veineux central|catéter venoso central|中心静脉导管|中心静脈カテーテル",
    "picc|picc line|peripherally inserted central catheter|经外周静脉置入中心静脉导管",
    "pacemaker|pacemakers|cardiac pacemaker|pacemaker device|dual-chamber pacemaker|PPM|schrittmacher|"
    "herzschrittmacher|stimulateur cardiaque|marcapasos|marca-passo|起搏器|ペースメーカー",
    "chest tube|chest tubes|chest drain|intercostal drain|thoracostomy tube|pleural drain|ICD|thoraxdrainage|drain "
    "thoracique|tubo de tórax|胸腔引流管|胸管|胸腔ドレーン",
    "swan-ganz catheter|swan ganz catheter|pulmonary artery catheter|PA catheter|肺动脉导管",
    # Head
    "epidural hematoma|extradural hematoma|extradural haemorrhage|extradural hemorrhage|extradural|epidural|"
    "epidural hemorrhage|epidural bleed|EDH|epiduralhämatom|epidurales hämatom|hématome épidural|"
    "hématome extradural|hematoma epidural|эпидуральн* гематом*|硬膜外血肿|硬膜外血腫|硬膜外出血",
    "subdural hematoma|subdural|subdural hemorrhage|subdural bleed|subdural collection|SDH|subduralhämatom|"
    "subdurales hämatom|hématome sous-dural|hematoma subdural|"
    "субдуральн* гематом*|硬膜下血肿|硬膜下血腫|硬膜下出血",
    "subarachnoid hemorrhage|subarachnoid|subarachnoid bleed|subarachnoid blood|SAH|SAB|subarachnoidalblutung|"
    "hémorragie sous-arachnoïdienne|hemorragia subaracnoidea|hemorragia subaracnóidea|"
    "субарахноидальн* кровоизлияни*|蛛网膜下腔出血|くも膜下出血",
    "intraparenchymal hemorrhage|intraparenchymal|intracerebral hemorrhage|intracerebral hematoma|intraparenchymal "
    "hematoma|intracerebral|parenchymal hemorrhage|parenchymal hematoma|intraparenchymal bleed|ICH|IPH|"
    "intrazerebrale blutung|hirnblutung|hémorragie intraparenchymateuse|hémorragie intracérébrale|hemorragia "
    "intraparenquimatosa|внутримозгов* гематом*|внутримозгов* кровоизлияни*|脑实质出血|脑实质内出血|脑内血肿|"
    "脑出血|脳出血|脳内出血",
    "intraventricular hemorrhage|intraventricular|intraventricular bleed|intraventricular blood|intraventricular "
    "extension|IVH|intraventrikuläre blutung|hémorragie intraventriculaire|внутрижелудочков* кровоизлияни*|"
    "脑室内出血|"
    "脑室出血|脳室内出血",
    "hemorrhage|haemorrhage|hemorrhages|bleed|bleeding|blutung|hémorragie|hemorragia|sangrado|emorragia|"
    "кровоизлияни*|кровотечени*|出血",
    "ischemic stroke|ischaemic stroke|infarct|infarction|cerebral infarction|ischemia|hirninfarkt|infarkt|avc "
    "ischémique|infarto cerebral|ишемическ* инсульт*|脑梗死|脑梗塞|脳梗塞",
    "glioblastoma|glioblastoma multiforme|GBM|glioblastom|glioblastome|глиобластом*|胶质母细胞瘤|膠芽腫",
    "meningioma|meningeom|meningeoma|méningiome|менингиом*|脑膜瘤|髄膜腫",
    "glioma|gliom|gliome|глиом*|胶质瘤|神経膠腫",
    "pituitary adenoma|pituitary macroadenoma|pituitary tumor|hypophysenadenom|adénome hypophysaire|adenoma "
    "hipofisario|аденома гипофиза|垂体腺瘤|垂体瘤|下垂体腺腫",
    "vestibular schwannoma|acoustic neuroma|acoustic schwannoma|akustikusneurinom|neurinome de l'acoustique|听神经瘤|"
    "前庭神经鞘瘤|聴神経腫瘍",
    "multiple sclerosis|multiple sklerose|sclérose en plaques|esclerosis múltiple|рассеянный склероз|多发性硬化|"
    "多発性硬化症",
    "hydrocephalus|hydrozephalus|hydrocéphalie|hidrocefalia|гидроцефали*|脑积水|水頭症",
    "abscess|abszess|abcès|absceso|ascesso|абсцесс*|脓肿|膿瘍",
    "metastasis|metastases|metastatic disease|metastatic lesion|metastatic deposit|metastase|metastasen|métastase|"
    "métastases|metástasis|metastasi|метастаз*|转移瘤|转移灶|転移",
    "lymphoma|lymphom|lymphome|linfoma|лимфом*|淋巴瘤|リンパ腫",
    # Liver, abdomen
    "hemangioma|haemangioma|cavernous hemangioma|hämangiom|hémangiome|hemangioma hepático|гемангиом*|血管瘤|血管腫",
    "hepatocellular carcinoma|HCC|hepatoma|hepatozelluläres karzinom|leberzellkarzinom|carcinome hépatocellulaire|"
    "CHC|carcinoma hepatocelular|гепатоцеллюлярн* карцином*|肝细胞癌|肝細胞癌|肝癌",
    "focal nodular hyperplasia|FNH|fokal noduläre hyperplasie|hyperplasie nodulaire focale|HNF|hiperplasia nodular "
    "focal|局灶性结节性增生|局灶结节增生|限局性結節性過形成",
    "cholangiocarcinoma|CCA|cholangiokarzinom|cholangiocarcinome|colangiocarcinoma|холангиокарцином*|胆管癌|"
    "胆管细胞癌",
    "cyst|simple cyst|zyste|kyste|quiste|cisto|cisti|киста|кист*|囊肿|嚢胞",
    "renal cell carcinoma|RCC|nierenzellkarzinom|carcinome à cellules rénales|carcinoma de células renales|"
    "肾细胞癌|肾癌|"
    "腎細胞癌",
    "angiomyolipoma|AML|angiomyolipom|angiomyolipome|angiomiolipoma|血管平滑肌脂肪瘤",
    "appendicitis|acute appendicitis|blinddarmentzündung|appendizitis|appendicite|apendicitis|apendicite|"
    "аппендицит*|阑尾炎|虫垂炎",
    "cholecystitis|acute cholecystitis|gallenblasenentzündung|cholezystitis|cholécystite|colecistitis|colecistite|"
    "холецистит*|胆囊炎|胆嚢炎",
    "gallstone|gallstones|cholelithiasis|gallensteine|gallenstein|calculs biliaires|lithiase biliaire|colelitiasis|"
    "cálculos biliares|желчнокаменная болезнь|胆结石|胆囊结石|胆石",
    "kidney stone|kidney stones|nephrolithiasis|renal calculus|renal calculi|renal stone|nierenstein|nierensteine|"
    "calcul rénal|cálculo renal|肾结石|腎結石",
    "small bowel obstruction|SBO|dünndarmileus|occlusion du grêle|obstrucción de intestino delgado|小肠梗阻|"
    "小肠肠梗阻",
    "hydronephrosis|dilated renal pelvis|pelvicalyceal dilatation|hydronephrose|hydronéphrose|hidronefrosis|"
    "hidronefrose|гидронефроз*|肾积水|水腎症",
    "pancreatitis|acute pancreatitis|pankreatitis|pancréatite|pancreatite|панкреатит*|胰腺炎|膵炎",
    "diverticulitis|divertikulitis|diverticulite|憩室炎",
    "ascites|free fluid|free abdominal fluid|aszites|ascite|асцит*|腹水|腹腔积液",
    "pneumoperitoneum|free air|free intraperitoneal air|freie luft|pneumopéritoine|neumoperitoneo|气腹|腹腔游离气体",
    "fatty liver|hepatic steatosis|steatosis|fettleber|stéatose hépatique|stéatose|hígado graso|esteatosis|"
    "esteatose|стеатоз*|脂肪肝",
    "cirrhosis|liver cirrhosis|zirrhose|leberzirrhose|cirrhose|cirrosis|cirrose|цирроз*|肝硬化|肝硬変",
    "polyp|polyps|polypoid lesion|polype|pólipo|polipo|полип*|息肉|ポリープ",
    "ulcer|ulcers|ulceration|ulkus|geschwür|ulcère|úlcera|ulcera|язва|溃疡|潰瘍",
    "ulcerative colitis|UC|colitis ulcerosa|rectocolite hémorragique|RCH|溃疡性结肠炎|潰瘍性大腸炎",
    "crohn's disease|crohn disease|crohn|morbus crohn|maladie de crohn|enfermedad de crohn|克罗恩病|クローン病",
    "abdominal aortic aneurysm|AAA|bauchaortenaneurysma|anévrisme de l'aorte abdominale|腹主动脉瘤",
    "aneurysm|aneurysma|anévrisme|aneurisma|аневризм*|动脉瘤|動脈瘤",
    "aortic dissection|aortendissektion|dissection aortique|disección aórtica|主动脉夹层|大動脈解離",
    # Eye
    "diabetic retinopathy|DR|diabetische retinopathie|rétinopathie diabétique|retinopatía diabética|retinopatia "
    "diabética|диабетическ* ретинопати*|糖尿病视网膜病变|糖网|糖尿病網膜症",
    "npdr|non-proliferative diabetic retinopathy|nonproliferative diabetic retinopathy|non proliferative diabetic "
    "retinopathy|non-proliferative dr|nonproliferative dr|non-proliferative retinopathy|"
    "nonproliferative retinopathy|nicht-proliferative diabetische retinopathie|非增殖期|非增殖性",
    "pdr|proliferative diabetic retinopathy|proliferative dr|proliferative retinopathy|proliferative disease|"
    "proliferative|proliferative diabetische retinopathie|增殖期|增殖性糖尿病视网膜病变|增殖性",
    "age-related macular degeneration|AMD|ARMD|macular degeneration|altersbedingte makuladegeneration|DMLA|"
    "年龄相关性黄斑变性|黄斑变性|加齢黄斑変性",
    "diabetic macular edema|DME|diabetic macular oedema|糖尿病性黄斑水肿",
    "choroidal neovascularization|CNV|choroidal neovascularisation|脉络膜新生血管",
    "drusen|druse|玻璃膜疣",
    "glaucoma|glaukom|glaucome|глауком*|青光眼|緑内障",
    "cataract|katarakt|cataracte|catarata|катаракт*|白内障",
    "retinal detachment|netzhautablösung|décollement de rétine|desprendimiento de retina|视网膜脱离|網膜剥離",
    "retinal vein occlusion|RVO|视网膜静脉阻塞",
    "microaneurysms|microaneurysm|micro-aneurysms|MA|MAs|mikroaneurysmen|microanévrismes|microaneurismas|"
    "микроаневризм*|微动脉瘤|微血管瘤|毛細血管瘤",
    "hemorrhages|haemorrhages|hemorrhage|haemorrhage|dot-blot hemorrhages|dot-blot haemorrhages|dot and blot "
    "hemorrhages|dot and blot haemorrhages|retinal hemorrhages|retinal haemorrhages|blot hemorrhages|"
    "blutungen|hémorragies|hemorragias|кровоизлияния|出血|网膜出血",
    "hard exudates|hard exudate|hard exudation|EX|harte exsudate|exsudats durs|exudados duros|твердые экссудаты|"
    "硬性渗出物|硬性渗出|硬渗|硬性白斑",
    "soft exudates|soft exudate|cotton wool spots|cotton-wool spots|cotton wool spot|cotton-wool spot|CWS|cotton "
    "wools|weiche exsudate|exsudats mous|nodules cotonneux|exudados blandos|软性渗出物|软性渗出|棉絮斑|棉绒斑|"
    "軟性白斑",
    "neovascularization|neovascularisation|new vessels|new vessel formation|NVD|NVE|neovessels|neovaskularisation*|"
    "néovaisseaux|neovascularización|неоваскуляризаци*|新生血管",
    # Skin
    "melanoma|malignant melanoma|mélanome|melanom|меланом*|黑色素瘤|メラノーマ|悪性黒色腫",
    "melanocytic nevus|melanocytic naevus|nevus|naevus|mole|muttermal|grain de beauté|nævus|невус*|色素痣|"
    "黑色素细胞痣|痣|母斑",
    "basal cell carcinoma|BCC|basaliom|basalzellkarzinom|carcinome basocellulaire|CBC|carcinoma basocelular|"
    "базальноклеточн* карцином*|基底细胞癌|基底細胞癌",
    "seborrheic keratosis|seborrhoeic keratosis|seborrhoic keratosis|SK|seborrhoische keratose|kératose "
    "séborrhéique|queratosis seborreica|脂溢性角化病|脂溢性角化|脂漏性角化症",
    "actinic keratosis|AK|solar keratosis|aktinische keratose|kératose actinique|queratosis actínica|光化性角化病|"
    "日光性角化病|"
    "光线性角化病",
    "dermatofibroma|DF|dermatofibrom|dermatofibrome|皮肤纤维瘤",
    "psoriasis|schuppenflechte|псориаз*|银屑病|牛皮癣|乾癬",
    # Tumours of histology
    "adenocarcinoma|ADC|adenokarzinom|adénocarcinome|аденокарцином*|腺癌",
    "squamous cell carcinoma|squamous carcinoma|squamous cell cancer|SCC|SqCC|epidermoid carcinoma|"
    "plattenepithelkarzinom|carcinome épidermoïde|carcinoma epidermoide|carcinoma de células escamosas|"
    "плоскоклеточн* карцином*|плоскоклеточн* рак*|鳞状细胞癌|鳞癌|扁平上皮癌",
    "small cell carcinoma|small cell lung cancer|small-cell carcinoma|SCLC|oat cell carcinoma|kleinzelliges "
    "karzinom|carcinome à petites cellules|carcinoma de células pequeñas|мелкоклеточн* карцином*|мелкоклеточн* рак*|"
    "小细胞癌|小細胞癌",
    "large cell carcinoma|LCC|großzelliges karzinom|大细胞癌",
    "ductal carcinoma in situ|DCIS|intraductal carcinoma|导管原位癌|導管内癌",
    "invasive ductal carcinoma|IDC|invasive carcinoma of no special type|invasives duktales karzinom|浸润性导管癌",
    "invasive lobular carcinoma|ILC|浸润性小叶癌",
    "fibroadenoma|fibroadenom|fibroadénome|fibroadenomas|фиброаденом*|纤维腺瘤|線維腺腫",
    "carcinoma|karzinom|carcinome|карцином*|癌",
    # Judgements
    "probably benign|likely benign|benign probably|wahrscheinlich gutartig|probablement bénin|probablement bénigne|"
    "probablemente benigno|probablemente benigna|provavelmente benigno|вероятно доброкачественн*|可能良性|"
    "良性可能性大|良性可能|"
    "大概良性",
    "displaced|displacement|disloziert|verschoben|déplacé|déplacée|desplazada|desplazado|deslocada|desviada|"
    "scomposta|移位|со смещением",
    "non-displaced|nondisplaced|non displaced|undisplaced|not displaced|without displacement|nicht disloziert|"
    "undisloziert|unverschoben|"
    "non déplacé|non déplacée|no desplazada|no desplazado|sin desplazamiento|sem desvio|não deslocada|composta|"
    "无移位|без смещения",
    "small|tiny|trace|minimal|little|klein|petit|petite|pequeño|pequeña|pequeno|piccolo|少量|小",
    "large|massive|huge|big|very large|groß|volumineux|volumineuse|massif|grande|extenso|大量|巨大",
    "cannot be determined|can't be determined|can not be determined|cannot be assessed|can't be assessed|not "
    "determinable|"
    "impossible to determine|unable to determine|cannot determine|can't determine|cannot be evaluated|"
    "indeterminable|not assessable|"
    "nicht beurteilbar|nicht bestimmbar|ne peut pas être déterminé|no se puede determinar|无法判断|无法确定|不能确定",
    "none of the above|none of these|none of them|none of the options|none of the given options|none of the "
    "listed options|none of those|"
    "none of the choices|none of the listed|neither of these|not any of these|keine der genannten|keines davon|"
    "nichts davon|"
    "aucune de ces réponses|aucun des choix|ninguna de las anteriores|ninguna de las opciones|nenhuma das "
    "anteriores|nessuna delle precedenti|"
    "以上都不是|以上皆非|都不是|该当なし",
    "h&e|haematoxylin and eosin|hematoxylin and eosin|haematoxylin-eosin|hematoxylin-eosin|hematoxylin eosin|"
    "haematoxylin eosin|HE stain|hämatoxylin-eosin|"
    "苏木精伊红|苏木精-伊红",
    "pas|periodic acid-schiff|periodic acid schiff|PAS stain",
    "masson trichrome|masson's trichrome|trichrome|masson",
    "congo red|kongorot|rouge congo|rojo congo|刚果红",
    "immunohistochemistry|IHC|immunhistochemie|免疫组化",
    "middle cerebral artery|MCA|arteria cerebri media|artère cérébrale moyenne|大脑中动脉|中大脳動脈",
    "posterior cerebral artery|PCA|arteria cerebri posterior|大脑后动脉|後大脳動脈",
    "anterior cerebral artery|ACA|arteria cerebri anterior|大脑前动脉|前大脳動脈",
    "left anterior descending|LAD|left anterior descending artery|RIVA|前降支",
    "right coronary artery|RCA|右冠状动脉",
    "left circumflex|LCX|LCx|circumflex artery|回旋支",
    "tumor|tumour|tumors|tumours|neoplasm|tumeur|tumore|опухол*|肿瘤|脑瘤|腫瘍",
    "benign|gutartig|gutartige|bénin|bénigne|benigno|benigna|доброкачественн*|良性",
    "malignant|bösartig|bösartige|maligne|maligner|maligno|maligna|cancerous|злокачественн*|恶性|悪性",
    "suspicious|suspicious for malignancy|suspekt|verdächtig|suspecte|sospechoso|sospechosa|suspeito|подозрительн*|"
    "可疑恶性|可疑",
    "premalignant|precancerous|präkanzerös|précancéreux|癌前",
    "mild|leicht|leichtgradig|léger|légère|leve|lieve|легк*|轻度|軽度",
    "moderate|mittelgradig|mäßig|modéré|modérée|moderado|moderada|moderato|умеренн*|中度|中等度",
    "severe|schwer|schwergradig|hochgradig|sévère|grave|severo|severa|тяжел*|重度|高度",
    "normal|normal study|normal examination|unremarkable|unauffällig|no abnormality|no abnormalities|no abnormality "
    "detected|NAD|within normal limits|WNL|normalbefund|sans particularité|sin alteraciones|без патологии|норма|正常|"
    "未见异常|未见明显异常|異常なし",
    "no finding|no findings|no abnormality|no abnormalities|unremarkable study|unremarkable examination|"
    "unremarkable exam|unremarkable radiograph|unremarkable chest radiograph|unremarkable chest x-ray|unremarkable|"
    "normal study|normal examination|"
    "normal exam|normal radiograph|normal chest radiograph|normal chest x-ray|normal film|normal scan|no acute "
    "cardiopulmonary abnormality|no acute cardiopulmonary process|no acute abnormality|no acute findings|no acute "
    "finding|nothing abnormal|"
    "no pathology|no pathological findings|no pathologic findings|no significant abnormality|no significant "
    "findings|no relevant findings|no abnormal findings|no disease|NAD|normalbefund|kein pathologischer befund|"
    "unauffälliger befund|o.b.|examen normal|sin hallazgos|sin hallazgos patológicos|"
    "sem alterações|без патологии|未见异常|未见明显异常|无异常|异常なし|異常なし|正常",
    "improved|improvement|improving|better|decreased|decrease|reduced|smaller|regressed|regression|regressing|"
    "shrunk|resolving|diminished|verbessert|gebessert|regredient|rückläufig|amélioré|amélioration|mejorado|mejoría|"
    "melhorado|melhora|"
    "улучшени*|好转|减少|改善|缩小|吸收",
    "worsened|worse|worsening|increased|increase|enlarged|larger|progressed|progression|progressing|progressive|"
    "deteriorated|deterioration|more extensive|grown|verschlechtert|progredient|zugenommen|aggravé|aggravation|"
    "empeorado|empeoramiento|piorado|piora|"
    "ухудшени*|恶化|加重|进展|增大|增多|悪化",
    "unchanged|stable|no change|no interval change|no significant change|no significant interval change|same as "
    "before|constant|unverändert|stabil|konstant|inchangé|inchangée|sin cambios|estable|sem alteração|inalterado|"
    "без изменений|без динамики|无变化|无明显变化|稳定|没有变化|变化なし|変化なし",
    "acute|akut|aigu|aiguë|agudo|aguda|acuto|остр*|急性",
    "chronic|chronisch|chronique|crónico|crónica|crônico|хроническ*|慢性",
    "male|man|männlich|homme|masculin|hombre|masculino|мужской|мужчина|男性|男",
    "female|woman|weiblich|femme|féminin|mujer|femenino|feminino|женский|женщина|女性|女",
)  # fmt: skip
"""Each line holds the names of one thing; "*" is any ending; capital letters alone are an abbreviation."""

_ABBREVIATION = re.compile(r"[+]?[A-Z][A-Za-z0-9]{0,2}[A-Z0-9+]s?|[+]?[A-Z]\+?")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_HAEM = re.compile(r"(?<=[a-z])our\b|haem|oedem")
_WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_LONGEST_NAME = 6

_OF_A_PICTURE = (
    "study|exam|radiograph|chest|scan|image|film|x-ray|ct|mri|ultrasound|appearance|findings|in|on|and|for|at"
)
_IS = r"(?:\s+size)?\s+(?:(?:is|are|was|appears?|looks?|seems?|remains?)\s+)?(?:to be\s+)?"
_DEGREE = r"(?:(?:mildly|moderately|severely|markedly|slightly|grossly|significantly|clearly|massively)\s+)?"
_SIZES = tuple(
    (
        name,
        re.compile(
            rf"(?i:\b(?:the\s+)?{organ}{_IS}(?:(?P<no>(?:of\s+|within\s+)?normal(?:\s+(?:limits?|in\s+size|size|"
            rf"range))?(?:\s+in\s+size)?|not\s+{_DEGREE}enlarged|"
            rf"unremarkable|normal-sized)|{_DEGREE}(?:enlarged|dilated|increased(?:\s+in\s+size)?|too\s+(?:big|"
            rf"large)))"
            rf"(?:\s+in\s+size)?\b|\b(?P<none>normal\s+(?:sized\s+)?{organ}(?:\s+size)?)\b)"
        ),
    )
    for name, organ in (
        (
            "cardiomegaly",
            r"(?:(?:heart|cardiac silhouette|cardiac contours?|cardiac shadow|cardiomediastinal silhouette|cardiac "
            r"size))",
        ),
        ("hepatomegaly", "liver"),
        ("splenomegaly", "spleen"),
    )
)
"""What is said of an organ's size, and the word for its enlargement."""


_GROUPS = tuple(tuple(row.split("|")) for row in _NAMES)


@lru_cache(maxsize=10_000)
def _key(name: str) -> str:
    return " ".join(_WORDS.findall(american(name)))


def american(text: str) -> str:
    """Returns a text in small letters and in American spelling: "haemorrhage" is "hemorrhage"."""
    small = text.casefold()
    return _HAEM.sub(lambda found: {"our": "or", "haem": "hem", "oedem": "edem"}[found[0]], small)


def _by_key() -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = defaultdict(list)
    for number, names in enumerate(_GROUPS):
        for name in names:
            if number not in found[_key(name)]:
                found[_key(name)].append(number)
    return {key: tuple(numbers) for key, numbers in found.items()}


_BY_KEY = _by_key()


_SHORT = {_key(name): (name, name.upper()) for names in _GROUPS for name in names if _ABBREVIATION.fullmatch(name)}


@lru_cache(maxsize=10_000)
def _own_names(wanted: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Returns the things that texts name, each with its one name in them."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for text in wanted:
        words, as_written = _WORDS.findall(american(text)), _WORDS.findall(text)
        place = 0
        while place < len(words):
            for length in range(min(_LONGEST_NAME, len(words) - place), 0, -1):
                name = " ".join(words[place : place + length])
                written = " ".join(as_written[place : place + length])
                is_small = name in _SHORT and written not in _SHORT[name]
                if name in _BY_KEY and not is_small:
                    for number in _BY_KEY[name]:
                        found[number].setdefault(name, written)
                    place += length - 1
                    break
            place += 1
    return tuple((number, next(iter(names.values()))) for number, names in found.items() if len(names) == 1)


@lru_cache(maxsize=len(_GROUPS))
def _keys(number: int) -> frozenset[str]:
    return frozenset(_key(name) for name in _GROUPS[number])


@cache
def _longer() -> Mapping[str, Sequence[str]]:
    """Returns the names that hold a shorter name, by the shorter one: whole words, or any part in Chinese."""
    found: dict[str, list[str]] = defaultdict(list)
    of_letters = [own for own in _BY_KEY if _CJK.search(own)]
    for key in _BY_KEY:
        words = key.split(" ")
        parts = {" ".join(words[first:stop]) for first, stop in combinations(range(len(words) + 1), 2)}
        for own in (*(parts - {key}), *(own for own in of_letters if own in key and own != key and own not in parts)):
            found[own].append(key)
    return found


@lru_cache(maxsize=len(_GROUPS))
def _pattern(number: int) -> re.Pattern[str]:
    keys = _keys(number)
    longer = {key for own in keys for key in _longer().get(own, ()) if number not in _BY_KEY[key]}
    names = sorted({*_GROUPS[number], *longer}, key=lambda name: (-len(name), name))
    return re.compile("|".join(map(_one, names)))


def _one(name: str) -> str:
    if _CJK.search(name):
        return f"(?i:{re.escape(name)})"
    if _ABBREVIATION.fullmatch(name):
        return rf"(?<![\w+-]){re.escape(name)}(?![\w+])"
    spelled = re.escape(name).replace(r"\*", r"\w*").replace(r"\ ", r"[\s-]+").replace(r"\-", r"[\s‐‑–-]?")
    spelled = spelled.replace("hem", "ha?em").replace("edem", "o?edem")
    if name == "unremarkable":
        spelled += rf"(?!\s+(?!{_OF_A_PICTURE})[a-z])"
    return rf"(?i:(?<![\w+-]){spelled}(?![\w+]|\s+(?:features|signs|findings|characteristics)\b))"


def _said_of_size(found: re.Match[str], name: str) -> str:
    return f"there is {'no ' if found['no'] or found['none'] else ''}{name}"


def with_enlargements(text: str, wanted: tuple[str, ...]) -> str:
    """Returns a text that says the size of an organ with the word for its enlargement, where others ask for that.

    >>> with_enlargements("The heart is enlarged.", ("Cardiomegaly",))
    'there is cardiomegaly.'
    >>> with_enlargements("Heart size is within normal limits.", ("Cardiomegaly",))
    'there is no cardiomegaly.'
    """
    small = " ".join(wanted).casefold()
    for name, pattern in _SIZES:
        if name in small:
            text = pattern.sub(partial(_said_of_size, name=name), text)
    return text


def in_names_of(text: str, wanted: tuple[str, ...]) -> str:
    """Returns a text in which medical things have the names that other texts have for them.

    >>> in_names_of("PTX on the left", ("Pneumothorax", "Pleural effusion"))
    'Pneumothorax on the left'
    >>> in_names_of("a pericardial effusion", ("Pneumothorax", "Pleural effusion"))
    'a pericardial effusion'
    """
    own = _own_names(wanted)
    active = dict(own)
    text = with_enlargements(text, wanted)
    for number, name in own:
        names = _keys(number)

        def written(found: re.Match[str], number: int = number, name: str = name, names: frozenset[str] = names) -> str:
            key = _key(found[0])
            others = {active[each] for each in _BY_KEY.get(key, ()) if each in active} - {name}
            if key == _key(name) or others or (key in _BY_KEY and key not in names):
                return found[0]
            return f" {name} " if _CJK.search(found[0]) else name

        text = _pattern(number).sub(written, text)
    return text
