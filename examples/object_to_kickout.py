"""Object to a kickout of your node if incidents explain most of its timeouts.

python examples/object_to_kickout.py http://127.0.0.1:8090 0xaaa… --config local.toml \
    --keystore node.json --password-file node.txt

The script posts the objection to the server, and prints it: any account may send its `calldata`
if the server does not accept objections. The options go to `qos-oracle objection sign`; with
--reason among them, the script does not look for incidents.
"""

import json
import subprocess
import sys

from qos_oracle_client import ApiError, Client

REASON_BY_KIND = {"application": "application", "network": "outage"}


def main(api: str, node: str, *options: str) -> None:
    """Sign and post the objection, or end with the reason why there is none."""
    client = Client(api)
    due_since = client.node(node)["kickout"]["due_since"]
    if due_since is None:
        raise SystemExit(f"{node}: no kickout is due")
    arguments = [*options, "--due-since", str(due_since)]
    if "--reason" not in options:
        arguments += ["--reason", *find_reason(client, node)]
    command = ("qos-oracle", "objection", "sign", "--json", *arguments)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    signed = json.loads(done.stdout)
    print(json.dumps(signed, indent=2))
    try:
        client.post_objection(signed)
    except ApiError as error:
        print(f"not posted: {error}", file=sys.stderr)


def find_reason(client: Client, node: str) -> tuple[str, str, str]:
    """Return the reason and a text that names the incidents behind the node's timeouts."""
    explanation = client.explain(node)["explanation"]
    timeouts = [
        change
        for change in explanation["reliability"]["changes"]
        if change["cause"] == "timed_out"
    ]
    numbers = [change["incident"] for change in timeouts if change["incident"] is not None]
    if 2 * len(numbers) <= len(timeouts):
        raise SystemExit(f"{node}: incidents explain {len(numbers)} of {len(timeouts)} timeouts")
    (first, *_) = [entry for entry in explanation["incidents"] if entry["number"] in numbers]
    words = (
        f"{len(numbers)} of {len(timeouts)} timeouts belong to incidents {sorted(set(numbers))}"
    )
    return REASON_BY_KIND[first["kind"]], "--text", words


if __name__ == "__main__":
    main(*sys.argv[1:])
