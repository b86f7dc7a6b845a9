"""Where each rule of the service description has its home: the table from its passages to the tests.

The description itself is not here, so the inventory stands for it: how many passages of each kind every section has.
Its kinds: *bullet*, *item* and *rule* are numbered as they are there; *field*, *header*, *body*, *path*, *request*,
*response*, *endpoint*, *state*, *model*, *price*, *limit* and *error* are rows of its tables and lists; a *note* is a
statement between them; *unshown* is what it says that it does not show, and what is done about it.
"""

from tests.rules import sections_1_2, sections_3_4, sections_5_9

INVENTORY = {
    "1 bullet": 8,
    "2.1 field": 9,
    "2.1 note": 6,
    "2.1 unshown": 1,
    "2.1 model": 10,
    "2.1 price": 4,
    "2.2 note": 1,
    "2.2 unshown": 1,
    "2.3 field": 5,
    "2.3 note": 3,
    "2.4 field": 16,
    "2.4 unshown": 2,
    "2.4 rule": 5,
    "2.5 field": 11,
    "2.5 unshown": 1,
    "2.5 note": 2,
    "3 state": 4,
    "3 note": 2,
    "3 unshown": 1,
    "4 note": 3,
    "4 endpoint": 6,
    "4.1 request": 1,
    "4.1 response": 1,
    "4.2 request": 1,
    "4.2 response": 1,
    "4.3 body": 3,
    "4.3 note": 6,
    "4.3 response": 2,
    "4.4 header": 1,
    "4.4 note": 2,
    "4.4 body": 1,
    "4.4 response": 5,
    "4.4 unshown": 1,
    "4.5 path": 1,
    "4.5 note": 2,
    "4.5 response": 1,
    "4.6 path": 1,
    "4.6 header": 1,
    "4.6 response": 6,
    "4.6 note": 4,
    "5 item": 7,
    "6 unshown": 1,
    "7 error": 12,
    "7 rule": 3,
    "8 limit": 6,
    "8 bullet": 3,
    "9 bullet": 5,
}

RULES = (*sections_1_2.RULES, *sections_3_4.RULES, *sections_5_9.RULES)
