"""Post the events of your nodes to a webhook, for example of Slack or Mattermost.

python examples/owner_bot.py http://127.0.0.1:8090 https://hooks.example/T00/B00 0xaaa… 0xbbb…

The id of the last posted event is kept in the file owner_bot.last. A restart continues there, so
no event is missed; an event may be posted twice if the bot stops between the two steps.
"""

import json
import sys
from pathlib import Path
from urllib.request import Request, urlopen

from qos_oracle_client import Client

KINDS = ("timed_out", "recovered", "paused", "left", "kickout_due", "kickout_accused")
# They concern every node.
NETWORK_KINDS = ("reorg", "rules_announced", "incident_began", "incident_over")
LAST_ID = Path("owner_bot.last")
NEW_ID = LAST_ID.with_suffix(".new")


def main(api: str, webhook: str, *nodes: str) -> None:
    """Follow the event stream until the process is stopped."""
    own_nodes = {node.lower() for node in nodes}
    last_id = LAST_ID.read_text("utf-8") if LAST_ID.exists() else None
    for event_id, event in Client(api).events(kinds=KINDS + NETWORK_KINDS, after=last_id):
        if event["node"] in own_nodes or event["kind"] in NETWORK_KINDS:
            subject = event["node"] or "the network"
            post(webhook, f"{event['kind']}, {subject}: {event['text']} (block {event['block']})")
        # Replaced at once, so that a bot that is stopped here leaves no empty file.
        NEW_ID.write_text(event_id, "utf-8")
        NEW_ID.replace(LAST_ID)


def post(webhook: str, text: str) -> None:
    """Send one message; a failure ends the bot, and the next start sends it again."""
    body = json.dumps({"text": text}).encode()
    headers = {"content-type": "application/json"}
    with urlopen(Request(webhook, body, headers), timeout=30):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
