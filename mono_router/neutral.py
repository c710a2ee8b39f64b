"""Neutral sentences: what people say to an assistant about anything at all, parallel in three languages.

A catalog says what its tools are for, never what they are not for. These sentences of our own stand for
the rest: the local selector learns "no tool" from them, and takes the language's own direction out of
an encoder's vectors by their mean.
"""

from __future__ import annotations

LANGUAGES = ("en", "ar", "es")

SMALL_TALK: tuple[tuple[str, str, str], ...] = (
    ("who wrote this novel", "من كتب هذه الرواية", "quién escribió esta novela"),
    ("why is the sky blue", "لماذا السماء زرقاء", "por qué el cielo es azul"),
    (
        "how tall is the highest mountain",
        "كم يبلغ ارتفاع أعلى جبل",
        "cuánto mide la montaña más alta",
    ),
    ("when did the war end", "متى انتهت الحرب", "cuándo terminó la guerra"),
    ("explain how a battery works", "اشرح كيف تعمل البطارية", "explica cómo funciona una batería"),
    ("what do whales eat", "ماذا تأكل الحيتان", "qué comen las ballenas"),
    (
        "who was the first president of the republic",
        "من كان أول رئيس للجمهورية",
        "quién fue el primer presidente de la república",
    ),
    (
        "write me a short poem about the sea",
        "اكتب لي قصيدة قصيرة عن البحر",
        "escríbeme un poema corto sobre el mar",
    ),
    (
        "what is the best way to train a dog",
        "ما أفضل طريقة لتدريب كلب",
        "cuál es la mejor forma de adiestrar a un perro",
    ),
    (
        "how do i remove a stain from a carpet",
        "كيف أزيل بقعة من السجادة",
        "cómo quito una mancha de la alfombra",
    ),
    ("which team won the championship", "أي فريق فاز بالبطولة", "qué equipo ganó el campeonato"),
    (
        "is this plant poisonous for cats",
        "هل هذه النبتة سامة للقطط",
        "es venenosa esta planta para los gatos",
    ),
    (
        "fix the error in my python program",
        "أصلح الخطأ في برنامجي",
        "corrige el error de mi programa",
    ),
    ("what should i wear to a wedding", "ماذا ألبس في حفل زفاف", "qué me pongo para una boda"),
    ("how old is the universe", "كم عمر الكون", "qué edad tiene el universo"),
    (
        "where can i buy second hand furniture",
        "أين أشتري أثاثا مستعملا",
        "dónde compro muebles de segunda mano",
    ),
    ("summarise the last chapter for me", "لخص لي الفصل الأخير", "resúmeme el último capítulo"),
    (
        "what are the symptoms of a cold",
        "ما أعراض نزلة البرد",
        "cuáles son los síntomas de un resfriado",
    ),
    (
        "how many people live in this country",
        "كم عدد سكان هذا البلد",
        "cuánta gente vive en este país",
    ),
    (
        "who is the richest person in the world",
        "من أغنى شخص في العالم",
        "quién es la persona más rica del mundo",
    ),
    ("how do i become a pilot", "كيف أصبح طيارا", "cómo me hago piloto"),
    (
        "what is the difference between a virus and bacteria",
        "ما الفرق بين الفيروس والبكتيريا",
        "cuál es la diferencia entre un virus y una bacteria",
    ),
    (
        "i had a hard day and feel lonely",
        "كان يومي صعبا وأشعر بالوحدة",
        "tuve un día duro y me siento solo",
    ),
    (
        "my brother got married last summer",
        "تزوج أخي في الصيف الماضي",
        "mi hermano se casó el verano pasado",
    ),
    ("that is really interesting", "هذا مثير للاهتمام حقا", "eso es muy interesante"),
    ("thanks, that is all for now", "شكرا، هذا كل شيء الآن", "gracias, eso es todo por ahora"),
    ("i do not understand what you mean", "لا أفهم ما تقصد", "no entiendo lo que quieres decir"),
    ("you are very kind", "أنت لطيف جدا", "eres muy amable"),
    ("how is chocolate made", "كيف تصنع الشوكولاتة", "cómo se hace el chocolate"),
    ("what language do they speak there", "ما اللغة التي يتحدثونها هناك", "qué idioma hablan allí"),
    (
        "how do i learn to play the guitar",
        "كيف أتعلم العزف على الجيتار",
        "cómo aprendo a tocar la guitarra",
    ),
    (
        "help me write an essay about climate",
        "ساعدني في كتابة مقال عن المناخ",
        "ayúdame a escribir un ensayo sobre el clima",
    ),
    ("who painted that picture", "من رسم تلك اللوحة", "quién pintó ese cuadro"),
    (
        "how far is the moon from the earth",
        "كم يبعد القمر عن الأرض",
        "a qué distancia está la luna de la tierra",
    ),
    (
        "what is the law about renting a house",
        "ما القانون الخاص بتأجير المنازل",
        "qué dice la ley sobre alquilar una casa",
    ),
    (
        "is it safe to swim after lunch",
        "هل السباحة بعد الغداء آمنة",
        "es seguro nadar después de comer",
    ),
    (
        "find me the cheapest phone with a good camera",
        "ابحث لي عن أرخص هاتف بكاميرا جيدة",
        "búscame el móvil más barato con buena cámara",
    ),
    (
        "how can i grow tomatoes on a balcony",
        "كيف أزرع الطماطم في الشرفة",
        "cómo cultivo tomates en un balcón",
    ),
    (
        "which university is the best for medicine",
        "أي جامعة هي الأفضل في الطب",
        "qué universidad es la mejor para medicina",
    ),
    ("do you believe in ghosts", "هل تؤمن بالأشباح", "crees en los fantasmas"),
    (
        "how many calories should a child eat",
        "كم سعرة حرارية يحتاج الطفل",
        "cuántas calorías debe comer un niño",
    ),
    ("name three famous scientists", "اذكر ثلاثة علماء مشهورين", "nombra tres científicos famosos"),
    (
        "what happened in the news about the election",
        "ماذا حدث في أخبار الانتخابات",
        "qué pasó en las noticias de las elecciones",
    ),
    ("my car makes a strange noise", "سيارتي تصدر صوتا غريبا", "mi coche hace un ruido extraño"),
    (
        "what does a lawyer earn in a year",
        "كم يكسب المحامي في السنة",
        "cuánto gana un abogado al año",
    ),
    (
        "how do i get rid of ants in the kitchen",
        "كيف أتخلص من النمل في المطبخ",
        "cómo me deshago de las hormigas de la cocina",
    ),
    ("solve this equation for me", "حل لي هذه المعادلة", "resuelve esta ecuación"),
    ("when was the telephone invented", "متى اخترع الهاتف", "cuándo se inventó el teléfono"),
    (
        "show me photos of the new museum",
        "أرني صور المتحف الجديد",
        "enséñame fotos del museo nuevo",
    ),
    ("does this shop sell umbrellas", "هل يبيع هذا المتجر المظلات", "vende paraguas esta tienda"),
    (
        "what is the most popular sport in brazil",
        "ما الرياضة الأكثر شعبية في البرازيل",
        "cuál es el deporte más popular de brasil",
    ),
    ("how do i repair a broken window", "كيف أصلح نافذة مكسورة", "cómo reparo una ventana rota"),
    (
        "give me an idea for a birthday present",
        "أعطني فكرة لهدية عيد ميلاد",
        "dame una idea para un regalo de cumpleaños",
    ),
    ("what is your opinion on this film", "ما رأيك في هذا الفيلم", "qué opinas de esta película"),
    ("how long do elephants live", "كم تعيش الفيلة", "cuánto viven los elefantes"),
    ("who discovered penicillin", "من اكتشف البنسلين", "quién descubrió la penicilina"),
    (
        "can i fold this shirt without ironing",
        "هل يمكنني طي القميص دون كي",
        "puedo doblar la camisa sin planchar",
    ),
    (
        "tell me about the history of this city",
        "حدثني عن تاريخ هذه المدينة",
        "háblame de la historia de esta ciudad",
    ),
    ("how does the stock market work", "كيف تعمل سوق الأسهم", "cómo funciona la bolsa"),
    (
        "what games can we play with small children",
        "ما الألعاب التي نلعبها مع الأطفال",
        "a qué podemos jugar con niños pequeños",
    ),
    (
        "which books should i read this year",
        "ما الكتب التي أقرؤها هذا العام",
        "qué libros debería leer este año",
    ),
    (
        "how do planes stay in the air",
        "كيف تبقى الطائرات في الجو",
        "cómo se mantienen los aviones en el aire",
    ),
)
"""English, Arabic, Spanish: no tool of most catalogs serves these."""

REQUESTS: tuple[tuple[str, str, str], ...] = (
    ("order a taxi for my grandmother", "اطلب سيارة أجرة لجدتي", "pide un taxi para mi abuela"),
    ("turn the volume down a little", "اخفض الصوت قليلا", "baja un poco el volumen"),
    ("remind me to call the doctor", "ذكرني بالاتصال بالطبيب", "recuérdame llamar al médico"),
    ("what will the weather be tomorrow", "كيف سيكون الطقس غدا", "qué tiempo hará mañana"),
    ("play some quiet music", "شغل موسيقى هادئة", "pon música tranquila"),
    ("how much money is in my account", "كم من المال في حسابي", "cuánto dinero hay en mi cuenta"),
    ("send an email to my boss", "أرسل بريدا إلى مديري", "envía un correo a mi jefe"),
    ("book a table for two", "احجز طاولة لشخصين", "reserva una mesa para dos"),
)
"""Typical requests to a tool: they align languages and never stand for "no tool"."""
