"""A backend without the SDK, made from backend.proto alone: it lists the cameras of a node."""
import base64, collections, datetime, glob, json, os, re, sys, threading, time
from concurrent import futures

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accelmux.backend.v1 import backend_pb2 as pb, backend_pb2_grpc


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def serial(usb):
    """Returns vendor, product and serial number; "" without a number. Some products have the same in all."""
    number = read(usb + "/serial")
    if re.fullmatch("[A-Za-z0-9_.-]{1,40}", number):
        return "-".join((read(usb + "/idVendor"), read(usb + "/idProduct"), number))
    return ""


def port(usb):
    """Returns the USB controller and the ports from there: the kernel counts the buses."""
    controller = os.path.realpath(usb).partition("/usb")[0]
    while controller.endswith(".auto"):  # a platform device that the kernel counts, too: the one above it
        controller = os.path.dirname(controller)
    return os.path.basename(controller) + "-" + os.path.basename(usb).partition("-")[2]


def cameras(sysfs):
    """Returns a device for each USB camera, with all its nodes: most have two."""
    devices = []
    bus = sysfs + "/bus/usb/devices"
    all_usb = sorted(os.path.join(bus, name) for name in os.listdir(bus)) if os.path.exists(bus) else []
    same = collections.Counter(map(serial, all_usb))
    for usb in all_usb:
        nodes = [pb.DeviceNode(path="/dev/" + os.path.basename(n)) for n in sorted(glob.glob(usb + "/*/video4linux/video*"))]
        if not nodes:
            continue  # no camera
        camera = pb.Device(**{"class": "camera"}, id=serial(usb), health=pb.Health(state=pb.HEALTH_STATE_HEALTHY))
        if not camera.id or same[camera.id] > 1:
            camera.id = port(usb)
        camera.attributes["model"].string_value = read(usb + "/product")[:21]
        camera.edits.device_nodes.extend(nodes)
        devices.append(camera)
    return devices


class Backend(backend_pb2_grpc.BackendServiceServicer):
    def __init__(self):
        self.settings = pb.ConfigureRequest()
        self.configured = threading.Event()
        self.generation = 0

    def Configure(self, request, context):
        unknown = json.loads(request.settings_json)
        if not unknown:
            self.settings = request
            self.configured.set()
        # The name and the version are those of manifest.yaml.
        return pb.ConfigureResponse(name="camera", version="1.0.0", errors=[
            pb.FieldError(field=f, message="unknown field: there are no settings") for f in unknown])

    def Watch(self, request, context):
        # A heartbeat comes from the loop that reads sysfs: if that hangs, it is missing.
        interval = request.heartbeat_interval.ToTimedelta().total_seconds() or 10
        last = None
        while context.is_active():
            self.configured.clear()
            settings = self.settings
            now = pb.Inventory(settings_revision=settings.revision)
            try:
                now.devices.extend(cameras(settings.paths.sysfs))
            except OSError as error:  # that is not to say that there are none
                now.unread.add(reason=str(error))
            if now.SerializeToString(deterministic=True) == last:
                yield pb.WatchResponse(heartbeat=pb.Heartbeat())
            else:
                last = now.SerializeToString(deterministic=True)
                self.generation = now.generation = self.generation + 1
                log = {"@level": "info", "@message": "cameras listed", "cameras": len(now.devices)}
                print(json.dumps(log), file=sys.stderr, flush=True)
                yield pb.WatchResponse(inventory=now)
            self.configured.wait(interval / 2)


def certificate():
    """Returns a certificate for this start, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.utcnow(), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + 10000 * day)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()), key


def main():
    if os.environ.get("ACCELMUX_BACKEND") != "8b3f0d2c-accelmux-backend":
        sys.exit("This is a backend of accelmux: the agent starts it.")
    if "1" not in os.environ["PLUGIN_PROTOCOL_VERSIONS"].split(","):
        sys.exit("This backend speaks version 1 of the protocol.")
    parent = os.getppid()
    cert, key = certificate()
    pem, der = (cert.public_bytes(e) for e in (serialization.Encoding.PEM, serialization.Encoding.DER))
    key = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    tls = grpc.ssl_server_credentials([(key, pem)], os.environ["PLUGIN_CLIENT_CERT"].encode(), require_client_auth=True)

    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 8 << 20)])
    backend_pb2_grpc.add_BackendServiceServicer_to_server(Backend(), server)
    # These two bytes are a HealthCheckResponse with the status SERVING.
    health = grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01")
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": health})])
    path = os.environ["PLUGIN_UNIX_SOCKET_DIR"] + "/backend.sock"
    server.add_secure_port("unix:" + path, tls)
    server.start()
    print(f"1|1|unix|{path}|grpc|{base64.b64encode(der).decode().rstrip('=')}", flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing else may be printed
    while os.getppid() == parent:  # a backend must not outlive the agent
        time.sleep(1)
    os._exit(0)  # not sys.exit, which waits for the streams


main()
