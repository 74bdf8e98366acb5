package deviceplugin

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func request(containers ...[]string) *pluginapi.AllocateRequest {
	r := &pluginapi.AllocateRequest{}
	for _, ids := range containers {
		r.ContainerRequests = append(r.ContainerRequests, &pluginapi.ContainerAllocateRequest{DevicesIds: ids})
	}
	return r
}

// Verifies that a request that cannot be met is refused with a message that has what to do.
func TestAllocateRefuses(t *testing.T) {
	n := startNode(t, fast)
	shared := func(r *resource.Resource) { r.Replicas, r.MaxReplicasPerContainer = 4, new(2) }
	n.plugin.Publish(table([]*inventory.Device{device("a"), broken(device("b")), device("c")}, shared), allNames{"c"})
	n.waitAllocatable(4)
	for name, tc := range map[string]struct {
		ids  []string
		life error
		code codes.Code
		says []string
	}{
		"unknown":     {[]string{"a::0", "x"}, nil, codes.NotFound, []string{gpu, `"x"`, "create the pod again"}},
		"unhealthy":   {[]string{"b::0"}, nil, codes.FailedPrecondition, []string{gpu, `"b::0"`, "xid-79", "fell off the bus"}},
		"no CDI name": {[]string{"c::0"}, nil, codes.FailedPrecondition, []string{"disk full"}},
		"too many": {
			[]string{"a::0", "a::1", "a::2"}, nil, codes.InvalidArgument,
			[]string{gpu, "3 replicas", "2", "maxReplicasPerContainer"},
		},
		"lifecycle": {[]string{"a::0"}, errors.New("a reset is in progress"), codes.Unavailable, []string{gpu, "a::0", "a reset is in progress"}},
		"lifecycle with a code": {
			[]string{"a::0"}, status.Error(codes.ResourceExhausted, "no room"), codes.ResourceExhausted, []string{gpu, "no room"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.life.err = tc.life
			_, err := n.dial().Allocate(t.Context(), request(tc.ids))
			if status.Code(err) != tc.code {
				t.Errorf("code is %v: %v", status.Code(err), err)
			}
			for _, part := range tc.says {
				if !strings.Contains(status.Convert(err).Message(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
	n.life.err = nil
	if _, err := n.dial().Allocate(t.Context(), request([]string{"a::0", "a::1"})); err != nil {
		t.Errorf("as many as allowed: %v", err)
	}
}

// One call may ask for several containers; two replicas of a device are one name.
func TestAllocateInjections(t *testing.T) {
	devices := []*inventory.Device{device("a"), device("b")}
	for i, d := range devices {
		d.Edits = inventory.Edits{
			Env:           inventory.Named(map[string]string{"LAST": d.ID, "ONLY_" + d.ID: "1", "ALL": d.ID + ",every"}),
			EnvSeparators: inventory.Named(map[string]string{"ALL": ","}),
			DeviceNodes: []inventory.DeviceNode{
				{Path: "/dev/ctl", HostPath: "/dev/ctl", Permissions: []string{"r", "wm"}[i]},
				{Path: "/dev/x" + d.ID, HostPath: "/host/" + d.ID, Permissions: "rw"},
			},
			Mounts: []inventory.Mount{{HostPath: "/lib/x", ContainerPath: "/x", Writable: i == 0}, {HostPath: "/lib/" + d.ID, ContainerPath: "/y"}},
		}
	}
	joined := map[string]string{"ALL": "a,every,b"}
	plainEnv := map[string]string{"LAST": "b", "ONLY_a": "1", "ONLY_b": "1", "ALL": "a,every,b"}
	for name, tc := range map[string]struct {
		injection config.Injection
		want      *pluginapi.ContainerAllocateResponse
	}{
		"cdi": {config.InjectCDI, &pluginapi.ContainerAllocateResponse{
			Envs:       joined,
			CdiDevices: []*pluginapi.CDIDevice{{Name: "accelmux.io/mock=a"}, {Name: "accelmux.io/mock=b"}, {Name: "accelmux.io/holder=h"}},
		}},
		"annotations": {config.InjectCDIAnnotations, &pluginapi.ContainerAllocateResponse{
			Envs:        joined,
			Annotations: map[string]string{"cdi.k8s.io/accelmux_example.com_gpu": "accelmux.io/mock=a,accelmux.io/mock=b,accelmux.io/holder=h"},
		}},
		"auto": {config.InjectAuto, &pluginapi.ContainerAllocateResponse{
			Envs:        joined,
			CdiDevices:  []*pluginapi.CDIDevice{{Name: "accelmux.io/mock=a"}, {Name: "accelmux.io/mock=b"}, {Name: "accelmux.io/holder=h"}},
			Annotations: map[string]string{"cdi.k8s.io/accelmux_example.com_gpu": "accelmux.io/mock=a,accelmux.io/mock=b,accelmux.io/holder=h"},
		}},
		"plain": {config.InjectPlain, &pluginapi.ContainerAllocateResponse{
			Envs: plainEnv,
			Devices: []*pluginapi.DeviceSpec{
				{ContainerPath: "/dev/ctl", HostPath: "/dev/ctl", Permissions: "rwm"},
				{ContainerPath: "/dev/xa", HostPath: "/host/a", Permissions: "rw"},
				{ContainerPath: "/dev/xb", HostPath: "/host/b", Permissions: "rw"},
			},
			Mounts: []*pluginapi.Mount{{ContainerPath: "/x", HostPath: "/lib/x"}, {ContainerPath: "/y", HostPath: "/lib/b", ReadOnly: true}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, fast)
			n.life.own = "accelmux.io/holder=h"
			n.plugin.Publish(table(devices, func(r *resource.Resource) { r.Replicas, r.Injection = 2, tc.injection }), allNames{})
			n.waitAllocatable(4)
			got, err := n.dial().Allocate(t.Context(), request([]string{"b::1", "a::0", "a::1"}, []string{"b::0"}))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.GetContainerResponses()) != 2 {
				t.Fatalf("%d answers", len(got.GetContainerResponses()))
			}
			if diff := cmp.Diff(tc.want, got.GetContainerResponses()[0], protocmp.Transform()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			want := []string{gpu + " a::0", gpu + " a::1", gpu + " b::1", gpu + " b::0"}
			if diff := cmp.Diff(want, n.life.allocated); diff != "" {
				t.Errorf("told of (-want +got):\n%s", diff)
			}
		})
	}
}

// Verifies that devices that disagree on how a variable is joined are a problem in the status
// and are not allocated to one container, and that each alone is.
func TestAllocateDevicesThatDisagree(t *testing.T) {
	for _, injection := range []config.Injection{config.InjectPlain, config.InjectCDI} {
		n := startNode(t, fast)
		devices := []*inventory.Device{device("a"), device("b"), device("c")}
		devices[0].Edits.EnvSeparators = inventory.Named(map[string]string{"DEVICE": ","})
		devices[2].Edits.EnvSeparators = inventory.Named(map[string]string{"DEVICE": ";"})
		n.plugin.Publish(table(devices, func(r *resource.Resource) { r.Injection = injection }), allNames{})
		n.waitAllocatable(3)
		if s := n.plugin.Status()[0]; len(s.Notes) != 1 || !hasNote(s, "DEVICE") || !hasNote(s, "mock/b") {
			t.Errorf("%s: notes %q", injection, s.Notes)
		}
		_, err := n.dial().Allocate(t.Context(), request([]string{"a", "c"}))
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), `";" for device mock/c`) {
			t.Errorf("%s: the devices came together: %v", injection, err)
		}
		if diff := cmp.Diff([]string{gpu + " a", gpu + " c"}, n.life.returned); diff != "" {
			t.Errorf("%s: abandoned (-want +got):\n%s", injection, diff)
		}
		for _, id := range []string{"a", "b", "c"} {
			if _, err := n.dial().Allocate(t.Context(), request([]string{id})); err != nil {
				t.Errorf("%s: %s alone: %v", injection, id, err)
			}
		}
	}
}

// Long names still make a valid annotation key.
func TestAnnotationOfLongName(t *testing.T) {
	name := strings.Repeat("long", 20) + ".example.com/" + strings.Repeat("x", 63)
	v := newView(&resource.Resource{
		Resource: config.Resource{Name: name, Injection: config.InjectCDIAnnotations, AnnotationPrefix: config.DefaultAnnotationPrefix, Replicas: 1},
		Devices:  table(gpus(1), nil).Resources[0].Devices,
	}, allNames{}, nil)
	units, err := v.pick([]string{"gpu-0"})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := inject(v, units, "", inventory.Unchecked)
	if err != nil {
		t.Fatal(err)
	}
	keys, names, err := cdi.ParseAnnotations(got.GetAnnotations())
	if err != nil || len(keys) != 1 || len(keys[0]) > len("cdi.k8s.io/")+63 || names[0] != "accelmux.io/mock=gpu-0" {
		t.Errorf("annotations %v: %v", got.GetAnnotations(), err)
	}
	v.name, v.annotations = gpu, "nvidia.cdi.k8s.io"
	if got, _, err = inject(v, units, "", inventory.Unchecked); err != nil ||
		!maps.Equal(got.GetAnnotations(), map[string]string{"nvidia.cdi.k8s.io/accelmux_example.com_gpu": "accelmux.io/mock=gpu-0"}) {
		t.Errorf("annotations for another runtime %v: %v", got.GetAnnotations(), err)
	}
}

// Kubelet's side of an allocation: preferred devices, the answer replayed at
// every start, hooks only for devices that want them.
func TestContainerLife(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Publish(table([]*inventory.Device{hooked(device("a", 0)), device("b", 1), hooked(device("c", 1))}, nil), allNames{})
	n.waitAllocatable(3)
	a, err := n.kubelet.Allocate(t.Context(), "p", "c", gpu, 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "c"}, a.Devices); diff != "" {
		t.Errorf("not on one NUMA node (-want +got):\n%s", diff)
	}
	var first *kubelettest.Settings
	for range 2 {
		s, err := n.kubelet.StartContainer(t.Context(), "p", "c")
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = s
		}
		if diff := cmp.Diff(first, s); diff != "" {
			t.Errorf("a restart differs (-first +this):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]string{gpu + " c", gpu + " c"}, n.life.prepared); diff != "" {
		t.Errorf("prepared (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{gpu + " b", gpu + " c"}, n.life.allocated); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
}

// A start fails for a device with a hook that cannot run, and for no other.
func TestPreStart(t *testing.T) {
	n := startNode(t, fast)
	n.life.unprepared = "b"
	all := []*inventory.Device{hooked(device("a")), device("b"), hooked(device("c"))}
	n.plugin.Publish(table(all, nil), allNames{})
	n.waitAllocatable(3)
	n.plugin.Publish(table([]*inventory.Device{hooked(broken(device("a")))}, nil), allNames{})
	n.waitAllocatable(0)
	for name, tc := range map[string]struct {
		id   string
		life error
		says string
	}{
		"unhealthy, the backend decides": {id: "a"},
		"the hook fails":                 {id: "a", life: errors.New("scrub failed"), says: "scrub failed"},
		"gone, no hook":                  {id: "b", life: errors.New("not called")},
		"gone, with a hook":              {id: "c", says: "no longer known"},
		"never seen":                     {id: "z", says: "no longer known"},
	} {
		t.Run(name, func(t *testing.T) {
			n.life.err = tc.life
			_, err := n.dial().PreStartContainer(t.Context(), &pluginapi.PreStartContainerRequest{DevicesIds: []string{tc.id}})
			if (tc.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error is %v, want %q", err, tc.says)
			}
		})
	}
}

// A device that fails between the two looks at it is refused, and its holder is
// taken back.
func TestRefusedAfterAllReturns(t *testing.T) {
	n := startNode(t, fast)
	n.life.block, n.life.entered = make(chan struct{}), make(chan struct{})
	n.plugin.Publish(table([]*inventory.Device{device("a"), device("b")}, nil), allNames{})
	n.waitAllocatable(2)
	client := n.dial()
	refused := make(chan error, 1)
	go func() {
		_, err := client.Allocate(t.Context(), request([]string{"a"}))
		refused <- err
	}()
	<-n.life.entered
	n.plugin.Publish(table([]*inventory.Device{broken(device("a")), device("b")}, nil), allNames{})
	n.waitAllocatable(1)
	close(n.life.block)
	if err := <-refused; status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the allocation of a device that failed meanwhile: %v", err)
	}
	n.life.mu.Lock()
	defer n.life.mu.Unlock()
	if diff := cmp.Diff([]string{gpu + " a"}, n.life.returned); diff != "" {
		t.Errorf("abandoned (-want +got):\n%s", diff)
	}
}

// Only CDI carries network interfaces: without it a container would start without its device.
func TestPlainRefusesNetworkInterfaces(t *testing.T) {
	d := device("d")
	d.Edits.NetDevices = []inventory.NetDevice{{HostName: "can0", Name: "can0"}}
	_, err := injectPlain(&pluginapi.ContainerAllocateResponse{}, []*inventory.Device{d}, inventory.Unchecked)
	if err == nil || !strings.Contains(err.Error(), "injection: cdi") {
		t.Error(err)
	}
}

// Verifies that a container without CDI gets paths without links, as they are now, or nothing if
// they lead to what is refused: such a runtime accepts whatever is there.
func TestPlainPathsAreResolved(t *testing.T) {
	dev := filepath.Join(t.TempDir(), "dev")
	if err := os.Mkdir(dev, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": "acme1", "disk": "sda"} {
		if err := errors.Join(os.WriteFile(filepath.Join(dev, target), nil, 0o600), os.Symlink(target, filepath.Join(dev, link))); err != nil {
			t.Fatal(err)
		}
	}
	s, all := inventory.NewStore(nil), inventory.EditScope{Devices: []string{"/**"}, Mounts: []string{"/**"}}
	s.SetPolicies(map[string]inventory.Policy{"mock": {Allowed: all, Host: inventory.Host{Host: hostfs.Host{Devfs: dev}}}})
	s.Describe("mock", inventory.Description{Name: "mock", Edits: all})
	if report, err := inventory.EncodeReport(&backendv1.Inventory{Generation: 1}); err != nil || s.Report("mock", report) != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/dev/link": "/dev/acme1", "/dev/disk": "", "/run/driver/dev/x": ""} {
		d := device("d")
		d.Edits = inventory.Edits{
			DeviceNodes: []inventory.DeviceNode{{Path: "/dev/x", HostPath: path, Permissions: "rw"}}, Mounts: []inventory.Mount{{ContainerPath: "/x", HostPath: path}},
		}
		response := &pluginapi.ContainerAllocateResponse{}
		_, err := injectPlain(response, []*inventory.Device{d}, s.OnHost())
		if (err != nil) != (want == "") || err == nil && (response.GetDevices()[0].GetHostPath() != want || response.GetMounts()[0].GetHostPath() != want) {
			t.Errorf("%s is given as %v, %v", path, response, err)
		}
	}
}
