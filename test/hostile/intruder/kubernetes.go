package intruder

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Resource is the extended resource that it registers with kubelet.
const Resource = "example.com/intruder"

// connectLimit is far above what an attempt to connect takes when nothing refuses it.
const connectLimit = 20 * time.Second

// spec would give the node's root to every container that names its device.
const spec = `{"cdiVersion": "0.6.0", "kind": "example.com/intruder", "devices": [{"name": "all", "containerEdits": {
"mounts": [{"hostPath": "/", "containerPath": "/host"}],
"hooks": [{"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", "true"]}]}}]}`

func kubernetes() []Attempt {
	return []Attempt{
		{Name: "token", What: "read the token for the API server", By: "files user mounts", try: func(s *Settings) error { return read(s.Token) }},
		{Name: "kubelet-connect", What: "connect to kubelet's sockets for device plugins and of pod resources", By: "user mounts systemCalls", try: func(s *Settings) error {
			return anyOf([]string{"device-plugins/kubelet.sock", "pod-resources/kubelet.sock"}, func(name string) error {
				return connect(filepath.Join(s.Kubelet, name))
			})
		}},
		{Name: "kubelet-register", What: "register a resource of its own with kubelet", By: "files user mounts systemCalls", try: register},
		{Name: "kubelet-read", What: "read kubelet's checkpoints", By: "files user mounts", try: func(s *Settings) error {
			return read(filepath.Join(s.Kubelet, "device-plugins/kubelet_internal_checkpoint"))
		}},
		{Name: "kubelet-write", What: "make a device plugin's socket in kubelet's directories", By: "files user mounts", try: func(s *Settings) error {
			return anyOf([]string{"device-plugins", "plugins_registry"}, func(name string) error {
				return makeSocket(filepath.Join(s.Kubelet, name, "intruder.sock"))
			})
		}},
		{Name: "pod-volume", What: "read a secret in a pod's volume", By: "files user mounts", try: func(s *Settings) error { return read(s.Volume) }},
		{Name: "cdi-write", What: "write a CDI spec with the node's root and a hook", By: "files user mounts", try: func(s *Settings) error {
			return create(filepath.Join(s.CDI, "intruder.json"), spec)
		}},
		{Name: "cdi-change", What: "change the CDI spec of another backend", By: "files user mounts", try: func(s *Settings) error { return openFor(s.Spec, unix.O_WRONLY) }},
		{Name: "runtime", What: "connect to the container runtime's socket", By: "user mounts systemCalls", try: func(s *Settings) error { return anyOf(s.Runtime, connect) }},
		{Name: "service-manager", What: "connect to systemd", By: "user mounts systemCalls", try: func(s *Settings) error { return connect(s.Manager) }},
		{Name: "system-log", What: "write to the system's log", By: "mounts systemCalls", try: func(s *Settings) error {
			return anyOf([]func(int, int, int) (int, error){unix.Socket, pair}, func(open func(int, int, int) (int, error)) error {
				fd, err := open(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return err
				}
				return errors.Join(unix.Sendto(fd, []byte("<7>intruder"), 0, &unix.SockaddrUnix{Name: s.Log}), unix.Close(fd))
			})
		}},
		{Name: "system-bus", What: "connect to D-Bus", By: "mounts systemCalls", try: func(s *Settings) error { return connect(s.Bus) }},
	}
}

func others() []Attempt {
	return []Attempt{
		{Name: "admin-socket", What: "connect to the agent's admin socket", By: "user mounts systemCalls", try: func(s *Settings) error { return connect(filepath.Join(s.Run, "admin.sock")) }},
		{Name: "state-read", What: "read the agent's state (devices' holders, health)", By: "files user mounts", try: func(s *Settings) error { return read(s.StateFile) }},
		{Name: "state-write", What: "change the agent's state", By: "files user mounts", try: func(s *Settings) error { return openFor(s.StateFile, unix.O_WRONLY) }},
		{Name: "state-create", What: "add files to the agent's state", By: "files user mounts", try: func(s *Settings) error { return create(filepath.Join(s.State, "intruder"), "") }},
		{Name: "state-mode", What: "change the modes, owners, times or attributes of the agent's directories", By: "user mounts systemCalls", try: func(s *Settings) error {
			return anyOf([]string{s.State, s.Run}, touch)
		}},
		{Name: "file-exists", What: "see which files the agent has, and their sizes and times", By: "mounts", try: func(s *Settings) error {
			_, err := os.Stat(s.StateFile)
			return err
		}},
		{Name: "hard-link", What: "link a file of the agent's into its own directory", By: "files user mounts", try: func(s *Settings) error {
			path := filepath.Join(ownDir(), "hard-link")
			return errors.Join(os.Link(s.StateFile, path), os.Remove(path))
		}},
		{Name: "symbolic-links", What: "have the agent follow links in the backend's own directory, when it removes that", By: "agent", Instead: "the agent follows none", try: func(s *Settings) error {
			return errors.Join(os.Symlink(s.StateFile, filepath.Join(ownDir(), "file")), os.Symlink(filepath.Dir(s.Volume), filepath.Join(ownDir(), "directory")))
		}},
		{Name: "config-read", What: "read the node configuration, with other backends' variables", By: "files user", try: func(s *Settings) error { return read(s.Config) }},
		{Name: "config-write", What: "change the node configuration", By: "files user", try: func(s *Settings) error { return openFor(s.Config, unix.O_WRONLY) }},
		{Name: "programs", What: "replace the program of a backend", By: "files user", try: func(s *Settings) error {
			return anyOf([]error{create(filepath.Join(s.Programs, "intruder"), ""), openFor(s.OtherProgram, unix.O_WRONLY)}, self)
		}},
		{Name: "backend-sockets", What: "list the directories of other backends' sockets", By: "files user mounts", try: func(s *Settings) error { return read(filepath.Dir(s.OtherSockets[0])) }},
		{Name: "backend-connect", What: "connect to another backend's socket", By: "user mounts systemCalls", try: func(s *Settings) error { return anyOf(s.OtherSockets, connect) }},
		{Name: "backend-device", What: "open another backend's device node, of mode 0666", By: "files", try: func(s *Settings) error { return openFor(s.OtherNode, unix.O_RDWR) }},
		{Name: "shared-memory", What: "attach another process's System V shared memory", By: "user systemCalls", try: func(s *Settings) error {
			data, err := unix.SysvShmAttach(s.Segment, 0, unix.SHM_RDONLY)
			if err != nil {
				return err
			}
			return unix.SysvShmDetach(data)
		}},
	}
}

// register registers a resource, as a device plugin does: kubelet connects to the plugin's socket.
func register(s *Settings) error {
	dir := filepath.Join(s.Kubelet, "device-plugins")
	if err := connect(filepath.Join(dir, "kubelet.sock")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "intruder.sock"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, plugin{})
	go func() { _ = server.Serve(listener) }() // until Stop
	defer server.Stop()
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: "intruder.sock", ResourceName: Resource,
	})
	return err
}

// plugin has one device. Its Allocate could give anything to containers.
type plugin struct {
	pluginapi.UnimplementedDevicePluginServer
}

func (plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (plugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: []*pluginapi.Device{{ID: "node", Health: pluginapi.Healthy}}})
	if err == nil {
		<-stream.Context().Done()
	}
	return err
}

// pair makes a pair of sockets, and returns one.
func pair(family, kind, protocol int) (int, error) {
	fds, err := unix.Socketpair(family, kind, protocol)
	if err != nil {
		return 0, err
	}
	return fds[0], unix.Close(fds[1])
}

// connect connects to a unix socket.
func connect(path string) error {
	conn, err := (&net.Dialer{Timeout: connectLimit}).DialContext(context.Background(), "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}

// makeSocket makes a unix socket and removes it.
func makeSocket(path string) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		return err
	}
	return listener.Close()
}

// read reads a byte of a file, or an entry of a directory.
func read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err = file.Read(make([]byte, 1)); errors.Is(err, unix.EISDIR) {
		_, err = file.Readdirnames(1)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// openFor opens a file that exists.
func openFor(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// create makes a file and removes it.
func create(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close(), os.Remove(path))
}

// touch sets a file's mode, its owner, its times or an extended attribute to what it is.
func touch(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return anyOf([]error{
		os.Chmod(path, info.Mode().Perm()),
		os.Chown(path, -1, -1),
		os.Chtimes(path, time.Time{}, info.ModTime()),
		errors.Join(unix.Setxattr(path, "user.intruder", nil, 0), unix.Removexattr(path, "user.intruder")),
	}, self)
}
