"""A server that speaks S3, for the tests: server.py BUCKET

It keeps everything in memory, makes the bucket, and prints its address.
"""

import sys
import threading

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
address = f"http://{host}:{port}"
s3 = boto3.client("s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
s3.create_bucket(Bucket=sys.argv[1])
print(address, flush=True)
threading.Event().wait()
