"""One rule of the service description, and the tests that show it."""

from attrs import frozen


@frozen(kw_only=True)
class Rule:
    """``section`` is the section, the kind of passage and its name: ``"2.4 rule 2"``, ``"7 error 402"``.

    ``sdk`` and ``sandbox`` are the tests of either side, as pytest names them, without parameters. ``note`` explains a
    side without a test, or what is made of something that the description does not show.
    """

    section: str
    says: str
    sdk: tuple[str, ...] = ()
    sandbox: tuple[str, ...] = ()
    note: str = ""

    @property
    def group(self) -> str:
        """Section and kind: what the inventory counts by."""
        return " ".join(self.section.split(" ", 2)[:2])

    @property
    def tests(self) -> tuple[str, ...]:
        return (*self.sdk, *self.sandbox)
