"""List the changed values of a dialect's capabilities, and the claims that an exchange proves."""

from __future__ import annotations

# Values of a capability: an exchange shows the dialect's value if another value gives another
# response. The claim is beside the dialect's value; without a claim no exchange is chosen.
SHOWN: dict[str, tuple[tuple[object, ...], dict[object, str]]] = {
    "atomic": (
        (True, False),
        {
            True: "KIP-1022: no updates persist if a single feature in the request fails; the "
            "answer is one error at the top.",
            False: "KIP-584, Guarantees: each update stands or falls alone, so the good ones of a "
            "request are written although others fail.",
        },
    ),
    "duplicates": (
        ("each", "first", "last"),
        {
            "each": "A name that stands twice: both are judged, and the last result is answered.",
            "first": "A name that stands twice: the first mention counts.",
            "last": "A name that stands twice: the last mention counts.",
        },
    ),
    "validate_only": (
        ("honoured", "ignored"),
        {
            "honoured": "KIP-778, validateOnly: judged as if for real, and nothing is written.",
            "ignored": "KIP-778 adds validateOnly; ZooKeeper mode does not read it: a dry run is "
            "applied.",
        },
    ),
    "upgrade_type_v0": (
        ("upgrade", "allow_downgrade"),
        {
            "upgrade": "Wire version 0 on KRaft: allowDowngrade is not read, all are upgrades.",
            "allow_downgrade": "KIP-584: allowDowngrade of wire version 0 permits a lower level.",
        },
    ),
    "after_failed_wait": (
        (0, 96),
        {
            96: "KIP-584, Guarantees, promises that a failure leaves nothing behind; here the node "
            "is written, nobody sees it in time, and the answer is 96 FEATURE_UPDATE_FAILED.",
        },
    ),
    "stores_min": (
        ("local", "level"),
        {
            "local": "KIP-584 lets no update move a minimum; 2.7 to 3.2 store the controller's own "
            "minimum with every level.",
        },
    ),
    "results_up_to": (
        (1, 2),
        {1: "KIP-1022, UpdateFeaturesResponse: wire version 2 has no result for each feature."},
    ),
    "kraft_version": (
        ("plain", "record", "ignored_record", "raft"),
        {
            "record": "kraft.version is a record of the controller; nodes show the raft layer's.",
            "ignored_record": "The controller does not look at its record of kraft.version.",
            "raft": "The raft layer keeps kraft.version; it never goes back.",
        },
    ),
    "kraft_version_leaks": (
        (True, False),
        {True: "KIP-1022: nothing persists if one fails; yet kraft.version moves all the same."},
    ),
    "knows_test_features": (
        (True, False),
        {
            True: "KIP-1022: a feature the controller has never heard of is refused; those of "
            "Kafka's own tests stand in its catalogue (Feature.java), so level 0 of one is good."
        },
    ),
    "judges": (
        ("cached", "finalized", "proposed"),
        {"cached": "An update is compared with the controller's cache, not with the node."},
    ),
    "absent_metadata_version": ((0, 1), {}),
}
SAME_LEVEL = (
    "KIP-584, Validations: an update goes up or down; KRaft writes a record for the same level."
)
EPOCH = {
    "zk": "KIP-584: the epoch is the version of the features node; every write moves it by one.",
    "kraft": "KIP-584: the epoch grows with every change; on KRaft it is an offset of the log.",
}
