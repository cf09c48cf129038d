"""A file server on 127.0.0.1 for the test get_data.sh, with byte ranges and broken connections.

get_data_server.py FILE LOG PORT_FILE: serves FILE for every path, on a free port that it writes to PORT_FILE. It appends
"PATH RANGE" to LOG for each request. The first request for a path that begins with /break is cut off half-way. Paths that
begin with /plain do not support ranges.
"""
import http.server
import os
import sys

content = open(sys.argv[1], "rb").read()
seen = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        wanted = self.headers.get("Range", "-")
        with open(sys.argv[2], "a") as log:
            log.write(f"{self.path} {wanted}\n")
        begin = 0
        if wanted.startswith("bytes=") and not self.path.startswith("/plain"):
            begin = int(wanted[len("bytes="):].split("-")[0])
        if begin >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        breaks = self.path.startswith("/break") and self.path not in seen
        seen.add(self.path)
        self.wfile.write(content[begin:len(content) // 2 if breaks else len(content)])

    def log_message(self, *arguments):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[3] + ".new", "w") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[3] + ".new", sys.argv[3])
server.serve_forever()
