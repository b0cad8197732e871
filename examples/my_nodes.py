"""Show your nodes on a page that only your machine serves, at http://127.0.0.1:8000.

python examples/my_nodes.py http://127.0.0.1:8090 8000 0xaaa… 0xbbb…
"""

import sys
from html import escape
from http.server import BaseHTTPRequestHandler, HTTPServer

from qos_oracle_client import ApiError, Client

PAGE = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="30">
<title>My nodes</title><style>
:root { color-scheme: light dark; font: 16px system-ui }
th, td { padding: .4em 1em; text-align: left }
.attention { font-weight: bold }
</style>"""
HEAD = "<tr><th>Node<th>State<th>GPU<th>QoS<th>Place<th>Scores<th>Kickout"


def render_page(client: Client, nodes: str) -> str:
    """Return the page with a row for each node."""
    page = client.nodes(of=nodes)
    rows = []
    for node in page["nodes"]:
        advice = client.node_advice(node["node"])
        outlook = advice["kickout"]
        kickout = f"due in {outlook['scores']} tasks" if outlook else advice["kickout_state"]
        cells = [node["node"], node["state"], node["gpu"] or "", node["qos"] or ""]
        cells += [str(node["place"] or ""), str(node["scores_in_pool"]), kickout]
        # Nodes choose the name of their GPU: it is escaped like everything else.
        row = "".join(f"<td>{escape(cell)}" for cell in cells)
        rows.append(f"<tr class={'attention' if outlook or node['excluded'] else 'fine'}>{row}")
    as_of = page["as_of"]
    caption = f"<p>Block {as_of['block']}, {as_of['lag_seconds']} seconds old</p>"
    return f"{PAGE}<h1>My nodes</h1><table>{HEAD}{''.join(rows)}</table>{caption}"


def main(api: str, port: str, *nodes: str) -> None:
    """Serve the page until the process is stopped."""
    client = Client(api)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                status = 200
                text = render_page(client, ",".join(nodes))
            except ApiError as error:
                status = 502
                text = f"{PAGE}<p>{escape(str(error))}"
            self.send_response(status)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

    HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
