"""`queue`: groups, order, values, the task that a node takes, and the tasks that are dropped."""

import json

import pytest

from oracle.cli.main import run
from oracle.domain.events.network_events import TaskKind
from tests.support.cli.refusal import run_refused_command
from tests.support.cli.task_files import write_events
from tests.support.histories import History, make_node_address, make_task_key

TOKENS = 10**18
# Every kind of task takes ten seconds, whatever its size.
PRICES = [
    word
    for kind in TaskKind
    for word in ("--fixed", f"{kind.value}=10", "--unit", f"{kind.value}=0")
]


def figure() -> History:
    """Return the history of the current page's figure: four groups, and a busy RTX 4080.

    See docs/explanation/crynux.md#dispatch-figures.
    """
    history = History().joins("N", gpu_name="RTX 4080", gpu_vram=16).joins("B", gpu_vram=8)
    history.creates("0", fee=1).starts("0", "N").after(10)
    for name, price in (("a", 40), ("b", 30), ("c", 20)):
        history.creates(f"24 {name}", min_vram=24, fee=10 * price)
    for name, price in (("a", 30), ("b", 20), ("c", 10)):
        history.creates(
            f"4080 {name}", fee=10 * price, required_gpu="RTX 4080", required_gpu_vram=16
        )
    for name, price in (("a", 30), ("b", 20), ("c", 10)):
        history.creates(f"16 {name}", min_vram=16, fee=10 * price)
    for name, price in (("a", 20), ("b", 10), ("c", 8)):
        history.creates(f"8 {name}", min_vram=8, fee=10 * price)
    return history


@pytest.fixture
def events(tmp_path):
    return write_events(tmp_path, figure())


def legacy_figure() -> History:
    """Return the history of the legacy page's figure: three RTX 4090 of 24 GB.

    See docs/explanation/crynux.md#dispatch-figures.
    """
    history = History().joins("A", "B", "C", gpu_name="RTX 4090", gpu_vram=24)
    history.joins("D", gpu_name="RTX 3060", gpu_vram=12).creates("0").starts("0", "A").after(10)
    kinds = {"GPT": TaskKind.LLM, "SD": TaskKind.SD}
    for group, prices in (
        ("GPT 40", (60, 50, 40)),
        ("SD 16", (40, 30, 20)),
        ("SD 8", (30, 20, 10)),
        ("GPT 24", (40, 30, 20)),
        ("GPT 16", (30, 20, 10)),
    ):
        name, vram = group.split()
        for price in prices:
            # A group of three is one task of the legacy system, with the sum of the
            # fees.
            first = f"{group} {price}"
            names = (first, f"{first} second", f"{first} third")
            history.creates(*names, of=first, kind=kinds[name], min_vram=int(vram), fee=10 * price)
    return history


def run_json(capsys, *arguments):
    assert run(["queue", *PRICES, *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def order_of(answer):
    return [entry["task"] for entry in answer["entries"]]


def test_tasks_of_each_queue_group_are_sorted_by_value(capsys, events):
    values: dict[tuple[int, str | None], list[str]] = {}
    for entry in run_json(capsys, "--events", events)["entries"]:
        group = entry["queue_group"]
        integer_part = entry["value"].partition(".")[0]
        values.setdefault((group["vram"], group["gpu"]), []).append(integer_part)

    assert values == {
        (24, None): ["40", "30", "20"],
        (16, "RTX 4080"): ["30", "20", "10"],
        (16, None): ["30", "20", "10"],
        (8, None): ["20", "10", "8"],
    }


def test_queue_groups_without_a_required_gpu_are_listed_last(capsys, events):
    assert run(["queue", *PRICES, "--events", str(events)]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [line for line in lines if line.endswith(": 3")] == [
        "24 GB, any GPU: 3",
        "16 GB, RTX 4080: 3",
        "16 GB, any GPU: 3",
        "8 GB, any GPU: 3",
    ]


def test_running_task_is_not_in_the_queue(capsys, events):
    answer = run_json(capsys, "--events", events)

    assert answer["waiting"] == 12
    assert make_task_key("0") not in order_of(answer)
    assert order_of(answer)[0] == make_task_key("24 a")


def test_freed_node_takes_the_most_valuable_task_that_fits(capsys, events):
    offer = run_json(capsys, "--events", events, "--node", make_node_address("N"))["offer"]

    # Heads 30, 30 and 20: of the equal ones, the older, which requires this GPU.
    assert offer["takes"] == make_task_key("4080 a")
    assert {head["task"]: head["why_not"] for head in offer["heads"]} == {
        make_task_key("24 a"): "vram_too_small",
        make_task_key("4080 a"): None,
        make_task_key("16 a"): "less_valuable",
        make_task_key("8 a"): "less_valuable",
    }


def test_paused_node_takes_no_task(capsys, tmp_path):
    events = write_events(tmp_path, figure().pauses("B"))
    offer = run_json(capsys, "--events", events, "--node", make_node_address("B"))["offer"]

    assert offer["why_not"] == "paused"
    assert offer["takes"] is None


def test_node_does_not_take_a_second_task_of_the_group(capsys, tmp_path):
    history = History().joins("A").creates("1", "2", of="g", fee=9).creates("3", fee=5)
    events = write_events(tmp_path, history.starts("1", "A"))
    offer = run_json(capsys, "--events", events, "--node", make_node_address("A"))["offer"]

    assert offer["takes"] == make_task_key("3")


def test_queue_over_capacity_drops_least_valuable_tasks(capsys, events):
    capacity = run_json(capsys, "--events", events, "--alpha", "5.5")["capacity"]

    # floor(5.5 * 2 members) = 11, and twelve tasks wait already.
    assert capacity["max_tasks"] == 11
    assert capacity["dropped_next"] == [make_task_key("8 c"), make_task_key("8 b")]


def test_full_queue_drops_only_whole_groups_not_yet_started(capsys, tmp_path):
    """The dispatcher drops a group with all its tasks, but not after one has started."""
    history = History().joins("A", gpu_vram=8).creates("1", "2", of="g", fee=1)
    history.creates("3", fee=9).creates("4", "5", of="h", fee=5).starts("4", "A")
    events = write_events(tmp_path, history)
    answer = run_json(capsys, "--events", events, "--alpha", "1")

    assert order_of(answer) == [
        make_task_key("3"),
        make_task_key("5"),
        make_task_key("1"),
        make_task_key("2"),
    ]
    assert answer["capacity"] == {
        "members": 1,
        "max_tasks": 1,
        "dropped_next": [make_task_key("1"), make_task_key("2"), make_task_key("3")],
    }


def test_queue_tables_fit_terminal_width(capsys, events):
    options = ["--events", str(events), "--node", make_node_address("N"), "--alpha", "6"]
    assert run(["queue", *PRICES, *options]) == 0
    text = capsys.readouterr().out

    assert max(map(len, text.splitlines())) <= 100
    assert "24 GB, any GPU: 3" in text
    assert f"takes\n  {make_task_key('4080 a')}" in text
    assert "capacity 12 tasks, with 2 members; one more would drop" in text


def test_freed_node_takes_a_task_with_two_partners_under_legacy_rules(capsys, tmp_path):
    events = write_events(tmp_path, legacy_figure())
    answer = run_json(
        capsys, "--policy", "legacy", "--events", events, "--node", make_node_address("A")
    )
    offer = answer["offer"]

    groups = {head["task"]: head["queue_group"] for head in offer["heads"]}
    assert {(key, group["kind"], group["vram"]) for key, group in groups.items()} == {
        (make_task_key("GPT 40 60"), "gpt", 40),
        (make_task_key("SD 16 40"), "sd", 16),
        (make_task_key("SD 8 30"), "sd", 8),
        (make_task_key("GPT 24 40"), "gpt", 24),
        (make_task_key("GPT 16 30"), "gpt", 16),
    }
    reasons = {head["task"]: head["why_not"] for head in offer["heads"]}
    assert reasons.pop(make_task_key("SD 16 40")) is None
    assert reasons.pop(make_task_key("GPT 40 60")) == "vram_too_small"
    assert {*reasons.values()} == {"less_valuable"}
    # Of the two with value 40, the older.
    assert offer["takes"] == make_task_key("SD 16 40")
    (pictures,) = [head for head in offer["heads"] if head["task"] == make_task_key("SD 16 40")]
    assert (pictures["gpu"], pictures["partners"]) == (
        None,
        [make_node_address("B"), make_node_address("C")],
    )
    (text,) = [head for head in offer["heads"] if head["task"] == make_task_key("GPT 24 40")]
    assert (text["gpu"], text["partners"]) == (
        "RTX 4090, 24 GB",
        [make_node_address("B"), make_node_address("C")],
    )
    # The value is that of its three tasks together.
    assert answer["entries"][0]["tasks"] == [
        make_task_key(f"GPT 40 60{which}") for which in ("", " second", " third")
    ]


def test_legacy_queue_groups_match_the_documented_figure(capsys, tmp_path):
    events = write_events(tmp_path, legacy_figure())
    options = ["--policy", "legacy", "--events", str(events), "--node", make_node_address("A")]
    assert run(["queue", *PRICES, *options]) == 0
    text = capsys.readouterr().out

    assert max(map(len, text.splitlines())) <= 100
    assert [line for line in text.splitlines() if line.endswith("GB: 3")] == [
        *("SD/8GB: 3", "SD/16GB: 3", "GPT/16GB: 3", "GPT/24GB: 3", "GPT/40GB: 3")
    ]
    assert f"takes\n  {make_task_key('SD 16 40')}\n      SD/16GB: with 2 of 2, any GPU" in text


@pytest.mark.parametrize("policy", ["crynux", "legacy", "pocket"])
def test_incomplete_group_of_three_is_not_offered(capsys, tmp_path, policy):
    """The daemon's queue is empty: a group of three with one created task cannot start."""
    history = History().joins("A", "B", "C", gpu_vram=24).creates("1", of="g", fee=9, group_size=3)
    arguments = ("--policy", policy, "--events", write_events(tmp_path, history))
    answer = run_json(capsys, *arguments, "--node", make_node_address("A"))

    assert (answer["waiting"], answer["entries"]) == (0, [])
    assert answer["left_out"] == [make_task_key("1")]
    assert answer["offer"]["takes"] is None


@pytest.mark.parametrize("policy", ["pocket", "portal_api_head"])
def test_pocket_policies_offer_the_first_task_that_fits_the_node(capsys, tmp_path, policy):
    history = History().joins("N", stake=1, gpu_name="RTX 4080", gpu_vram=16)
    for name, fee, vram in (
        ("large", 90, 24),
        ("best", 50, 16),
        ("next", 40, 16),
        ("small", 5, 8),
    ):
        history.creates(name, fee=fee, min_vram=vram)
    arguments = ("--policy", policy, "--events", write_events(tmp_path, history))
    answer = run_json(capsys, *arguments, "--node", make_node_address("N"))
    offer = answer["offer"]

    assert order_of(answer) == [make_task_key(name) for name in ("large", "best", "next", "small")]
    assert offer["takes"] == make_task_key("best")
    assert {head["task"]: head["why_not"] for head in offer["heads"]} == {
        make_task_key("large"): "vram_too_small",
        make_task_key("best"): None,
        make_task_key("small"): "less_valuable",
    }


def test_error_for_missing_price_names_the_settings(capsys, events):
    line = run_refused_command(capsys, "queue", "--events", events, "--fixed", "sd=1")

    assert "dispatch.fixed_seconds and dispatch.unit_seconds" in line
    assert "--fixed llm=SECONDS" in line
    assert "--fixed sd=SECONDS" not in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--fixed", "gpt=1"], "unknown kind"),
        (["--unit", "sd=-1"], "must be a decimal"),
        (["--unit", "sd=nan"], "must be a decimal"),
        (["--alpha", "0"], "--alpha 0: must be above 0"),
        (["--alpha", "many"], "must be a decimal"),
        (["--node", "0x12"], "no known node starts with this prefix"),
        (["--node", make_node_address("nobody")], "no event refers to this node"),
    ],
)
def test_invalid_options_are_rejected(capsys, events, options, why):
    # An option of the test comes last; a kind that is priced twice would be rejected.
    prices = [] if options[0] in {"--fixed", "--unit"} else PRICES
    assert why in run_refused_command(capsys, "queue", "--events", events, *prices, *options)


def test_download_request_is_shown_until_node_has_model(capsys, tmp_path):
    history = History().joins("A", "B", "C").after(10)
    for name in "AB":
        history.is_asked_to_download(name, "\x1b[2Jbase")
    history.adds_model("B", "\x1b[2Jbase").after(60)
    events = write_events(tmp_path, history.joins("D"))
    (download,) = run_json(capsys, "--events", events)["downloads"]

    assert (download["node"], download["state"]) == (make_node_address("A"), "open")
    assert run(["queue", *PRICES, "--events", str(events)]) == 0
    text = capsys.readouterr().out
    assert r"\x1b[2Jbase (open)" in text
    assert make_node_address("A") in text
    assert make_node_address("B") not in text
