"""Sentences that ask for judgement, and sentences that ask for a job of many steps, in three languages.

A catalog says which modes a skill supports and seldom shows what each sounds like. These sentences of
our own, about all sorts of things, stand for "think" (look something up, then weigh it) and "agent"
(several steps that depend on each other); what a catalog's examples say comes on top.
"""

from __future__ import annotations

THINK: tuple[tuple[str, str, str], ...] = (
    (
        "should I take the bus or the train today?",
        "هل آخذ الحافلة أم القطار اليوم؟",
        "¿cojo el bus o el tren hoy?",
    ),
    (
        "is it worth repairing the old printer?",
        "هل يستحق إصلاح الطابعة القديمة؟",
        "¿merece la pena arreglar la impresora vieja?",
    ),
    (
        "would it be wise to sell the shares now?",
        "هل من الحكمة بيع الأسهم الآن؟",
        "¿sería sensato vender las acciones ahora?",
    ),
    (
        "can we afford a new sofa this month?",
        "هل نقدر على شراء أريكة جديدة هذا الشهر؟",
        "¿nos podemos permitir un sofá nuevo este mes?",
    ),
    (
        "will the paint be enough for both rooms?",
        "هل يكفي الدهان للغرفتين؟",
        "¿llegará la pintura para las dos habitaciones?",
    ),
    (
        "does the dentist fit between my two classes?",
        "هل يناسب طبيب الأسنان بين درسيّ؟",
        "¿cabe el dentista entre mis dos clases?",
    ),
    (
        "which of these laptops suits me best?",
        "أي هذه الحواسيب أنسب لي؟",
        "¿cuál de estos portátiles me conviene más?",
    ),
    (
        "which supplier has been the least reliable?",
        "أي مورد كان الأقل التزاما؟",
        "¿qué proveedor ha sido el menos fiable?",
    ),
    (
        "compare the two insurance offers for me",
        "قارن لي بين عرضي التأمين",
        "compárame las dos ofertas de seguro",
    ),
    ("summarise what the reviews say", "لخص ما تقوله المراجعات", "resume lo que dicen las reseñas"),
    (
        "sum up the lecture in a few lines",
        "لخص المحاضرة في بضعة أسطر",
        "hazme un resumen de la clase en pocas líneas",
    ),
    (
        "why did sales fall in spring?",
        "لماذا انخفضت المبيعات في الربيع؟",
        "¿por qué cayeron las ventas en primavera?",
    ),
    (
        "what stands out in the figures of this quarter?",
        "ما اللافت في أرقام هذا الربع؟",
        "¿qué llama la atención en las cifras de este trimestre?",
    ),
    (
        "is there anything odd about the access log?",
        "هل في سجل الدخول ما يثير الشك؟",
        "¿hay algo raro en el registro de accesos?",
    ),
    (
        "do I need a coat for the match tonight?",
        "هل أحتاج معطفا لمباراة الليلة؟",
        "¿necesito abrigo para el partido de esta noche?",
    ),
    (
        "given my timetable, when could I study more?",
        "بالنظر إلى جدولي، متى أدرس أكثر؟",
        "con mi horario, ¿cuándo podría estudiar más?",
    ),
    (
        "based on my marks, what should I practise?",
        "بناء على درجاتي، ماذا أتدرب عليه؟",
        "según mis notas, ¿qué debería practicar?",
    ),
    (
        "how am I doing compared with last year?",
        "كيف أدائي مقارنة بالعام الماضي؟",
        "¿cómo voy en comparación con el año pasado?",
    ),
    (
        "am I spending too much on taxis?",
        "هل أصرف أكثر من اللازم على سيارات الأجرة؟",
        "¿estoy gastando demasiado en taxis?",
    ),
    (
        "what would you advise me to drop first?",
        "بماذا تنصحني أن أترك أولا؟",
        "¿qué me aconsejas dejar primero?",
    ),
    (
        "what matters most in this report?",
        "ما الأهم في هذا التقرير؟",
        "¿qué es lo más importante de este informe?",
    ),
    (
        "have the exercises been helping my back?",
        "هل ساعدت التمارين ظهري؟",
        "¿me han ayudado los ejercicios con la espalda?",
    ),
    ("is the route safe if it freezes?", "هل الطريق آمن إذا تجمد؟", "¿es segura la ruta si hiela?"),
    (
        "could we finish the roof before the rain?",
        "هل ننهي السقف قبل المطر؟",
        "¿nos daría tiempo a acabar el tejado antes de la lluvia?",
    ),
    (
        "how much would I save by cycling to work?",
        "كم سأوفر لو ذهبت إلى العمل بالدراجة؟",
        "¿cuánto ahorraría yendo al trabajo en bici?",
    ),
    ("whom should I answer first?", "من أرد عليه أولا؟", "¿a quién debería responder antes?"),
    (
        "does what the doctor said agree with my results?",
        "هل يتفق كلام الطبيب مع نتائجي؟",
        "¿cuadra lo que dijo el médico con mis resultados?",
    ),
    (
        "what explains the delay of the parcel?",
        "ما سبب تأخر الطرد؟",
        "¿a qué se debe el retraso del paquete?",
    ),
    (
        "tell me whether the lease lets me keep a dog",
        "قل لي هل يسمح العقد بتربية كلب",
        "dime si el contrato me deja tener perro",
    ),
    (
        "what is the trend in visits over the summer?",
        "ما اتجاه الزيارات خلال الصيف؟",
        "¿qué tendencia tienen las visitas en verano?",
    ),
    (
        "do these two plans contradict each other?",
        "هل تتعارض هاتان الخطتان؟",
        "¿se contradicen estos dos planes?",
    ),
    (
        "which day would be the best for a barbecue?",
        "أي يوم أفضل للشواء؟",
        "¿qué día sería mejor para una barbacoa?",
    ),
)
AGENT: tuple[tuple[str, str, str], ...] = (
    (
        "plan the school trip from start to finish",
        "خطط للرحلة المدرسية من البداية إلى النهاية",
        "organiza la excursión del colegio de principio a fin",
    ),
    (
        "organise the move to the new flat, step by step",
        "نظم الانتقال إلى الشقة الجديدة خطوة خطوة",
        "organiza la mudanza al piso nuevo paso a paso",
    ),
    (
        "go through the orders one by one and chase the late ones",
        "راجع الطلبات واحدا واحدا ولاحق المتأخر منها",
        "repasa los pedidos uno por uno y reclama los que van tarde",
    ),
    (
        "sort out the garage sale: list, prices and posters",
        "رتب بيع الأغراض: القائمة والأسعار والملصقات",
        "encárgate del mercadillo: lista, precios y carteles",
    ),
    (
        "clean up my photo folders and delete the doubles",
        "نظف مجلدات صوري واحذف المكرر",
        "limpia mis carpetas de fotos y borra las repetidas",
    ),
    (
        "turn the meeting notes into tickets and assign them",
        "حول محضر الاجتماع إلى تذاكر ووزعها",
        "convierte el acta en incidencias y asígnalas",
    ),
    (
        "get everything ready for the audit on Monday",
        "جهز كل شيء لتدقيق يوم الاثنين",
        "deja todo listo para la auditoría del lunes",
    ),
    (
        "take care of the whole wedding guest list and the replies",
        "تول قائمة ضيوف العرس كلها والردود",
        "ocúpate de toda la lista de invitados de la boda y de las respuestas",
    ),
    (
        "find three plumbers, ask each for a price and choose the cheapest",
        "ابحث عن ثلاثة سباكين واطلب من كل منهم سعرا واختر الأرخص",
        "busca tres fontaneros, pide precio a cada uno y elige el más barato",
    ),
    (
        "check every shelf and order whatever is running out",
        "افحص كل الرفوف واطلب ما أوشك على النفاد",
        "revisa todas las estanterías y pide lo que se esté acabando",
    ),
    (
        "set up the new employee: account, desk and first week",
        "جهز الموظف الجديد: الحساب والمكتب والأسبوع الأول",
        "prepara la llegada del nuevo empleado: cuenta, mesa y primera semana",
    ),
    (
        "rebuild the study plan and put each lesson in place",
        "أعد بناء خطة الدراسة وضع كل درس في مكانه",
        "rehaz el plan de estudios y coloca cada lección",
    ),
    (
        "write to all the members and adjust the list as they answer",
        "راسل كل الأعضاء وعدل القائمة حسب ردودهم",
        "escribe a todos los socios y ajusta la lista según respondan",
    ),
    (
        "arrange a weekend away: hotel, train and a table for dinner",
        "رتب عطلة نهاية الأسبوع: فندق وقطار وطاولة عشاء",
        "monta una escapada: hotel, tren y mesa para cenar",
    ),
    (
        "make the budget work: find the waste, cut it and tell the team",
        "اضبط الميزانية: اعثر على الهدر وأوقفه وأبلغ الفريق",
        "cuadra el presupuesto: busca el gasto inútil, recórtalo y avisa al equipo",
    ),
    (
        "work through the backlog until nothing is left",
        "أنجز الأعمال المتراكمة حتى لا يبقى شيء",
        "trabaja en lo atrasado hasta que no quede nada",
    ),
    (
        "prepare the launch end to end and report back",
        "حضر الإطلاق بالكامل ثم أخبرني",
        "prepara el lanzamiento completo y luego infórmame",
    ),
    (
        "fix the broken links on every page and publish again",
        "أصلح الروابط المعطلة في كل صفحة وانشر من جديد",
        "arregla los enlaces rotos de cada página y vuelve a publicar",
    ),
    (
        "clear my week: cancel what can wait and tell the people",
        "أفرغ أسبوعي: ألغ ما يمكن تأجيله وأخبر الناس",
        "despeja mi semana: cancela lo que pueda esperar y avisa a la gente",
    ),
    (
        "book the vet and then let my sister know",
        "احجز عند البيطري ثم أخبر أختي",
        "reserva en el veterinario y luego avisa a mi hermana",
    ),
    (
        "pay the rent and send the receipt to the landlord",
        "ادفع الإيجار وأرسل الإيصال إلى المالك",
        "paga el alquiler y manda el recibo al casero",
    ),
    (
        "order the flowers, write the card and have them delivered",
        "اطلب الزهور واكتب البطاقة واطلب توصيلها",
        "encarga las flores, escribe la tarjeta y haz que las entreguen",
    ),
    (
        "delete the old draft and start a new one instead",
        "احذف المسودة القديمة وابدأ واحدة جديدة بدلا منها",
        "borra el borrador viejo y empieza uno nuevo en su lugar",
    ),
    (
        "do a full review of the contracts and renew those that pay",
        "راجع العقود مراجعة كاملة وجدد المربح منها",
        "haz una revisión completa de los contratos y renueva los rentables",
    ),
    (
        "put together a training plan and enter the sessions",
        "ضع خطة تدريب وأدخل الحصص",
        "elabora un plan de entrenamiento y apunta las sesiones",
    ),
    (
        "handle the complaint: find the order, refund it and apologise",
        "عالج الشكوى: ابحث عن الطلب وأعد المبلغ واعتذر",
        "gestiona la queja: busca el pedido, devuelve el dinero y discúlpate",
    ),
    (
        "bring the customer list up to date, entry by entry",
        "حدث قائمة العملاء سجلا سجلا",
        "pon al día la lista de clientes, ficha por ficha",
    ),
    (
        "make sure each room is booked and every speaker has confirmed",
        "تأكد من حجز كل قاعة ومن تأكيد كل متحدث",
        "asegúrate de que cada sala esté reservada y cada ponente confirmado",
    ),
)
