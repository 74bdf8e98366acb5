package deviceplugin

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// maxErrorText bounds, in bytes, what kubelet gets as an error for a request that
// makes no sense.
const maxErrorText = 4096

// asked are the resources that FuzzKubelet asks for: all ways of injection, with
// devices that are healthy (a to d), prepared first (b, d), unhealthy (e), refused by
// the agent (f), and without a CDI name (g).
func asked() []*view {
	devices := []*inventory.Device{
		device("a"), hooked(device("b", 0)), device("c", 1), hooked(device("d", 1)), broken(device("e")), device("f"), device("g"),
	}
	devices[0].Links = []inventory.Link{{Peer: "c", Kind: "nvlink", Count: 2}}
	devices[2].Links = []inventory.Link{{Peer: "a", Kind: "nvlink", Count: 2}}
	for _, d := range devices {
		d.Edits.DeviceNodes = []inventory.DeviceNode{{Path: "/dev/" + d.ID, HostPath: "/dev/" + d.ID, Permissions: "rw"}}
	}
	var views []*view
	for _, change := range []func(*resource.Resource){
		func(*resource.Resource) {},
		func(r *resource.Resource) { r.Injection = config.InjectPlain },
		func(r *resource.Resource) { r.Replicas, r.MaxReplicasPerContainer = 2, new(2) },
		func(r *resource.Resource) {
			r.Injection, r.Allocation.Policy = config.InjectCDIAnnotations, config.AllocatePack
		},
	} {
		views = append(views, newView(table(devices, change).Resources[0], allNames{"g"}, nil))
	}
	return views
}

// FuzzKubelet takes any bytes that are a request of kubelet's. Whatever it asks,
// nothing panics, no container gets what it must not have, no unit goes to two
// containers of one call, what is refused is returned, and the error is a short message
// that names the resource.
func FuzzKubelet(f *testing.F) {
	add := func(call uint8, m proto.Message) {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		for kind := range uint8(4) {
			f.Add(call, kind, data)
		}
	}
	for _, containers := range [][][]string{
		nil, {{}}, {{"a"}}, {{"b", "a", "b"}}, {{"a"}, {"a"}}, {{"a"}, {"c", "f"}}, {{"e"}}, {{"g"}}, {{"a::0"}, {"a::1"}},
		{{"a::0", "a::1", "c::0"}}, {{"\x00\n"}}, {{strings.Repeat("long", 100)}},
	} {
		add(0, request(containers...))
	}
	for _, c := range []*pluginapi.ContainerPreferredAllocationRequest{
		ask(2, "a b c d e f g"), ask(-1, "a"), ask(1<<31-1, "a c", "e", "strange"), ask(2, "a::0 a::1 c::1", "a::1"), ask(0, ""),
	} {
		add(1, &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{c, c}})
	}
	for _, ids := range [][]string{nil, {"a"}, {"b", "b", "a"}, {"d", "left"}, {"gone"}, {"b::0", "b::1"}} {
		add(2, &pluginapi.PreStartContainerRequest{DevicesIds: ids})
	}
	views := asked()
	f.Fuzz(func(t *testing.T, call, kind uint8, data []byte) {
		k := newKubeletCall(t, views[int(kind)%len(views)])
		switch call % 3 {
		case 0:
			k.allocate(data)
		case 1:
			k.prefer(data)
		default:
			k.preStart(data)
		}
	})
}

// kubeletCall is one call to an instance of its own.
type kubeletCall struct {
	*testing.T
	view *view
	in   *instance
	life *recorder
}

func newKubeletCall(t *testing.T, v *view) *kubeletCall {
	t.Helper()
	life := &recorder{refused: "f", unprepared: "left"}
	p, err := New(Options{Dir: "/nowhere/device-plugins", RegistryDir: "/nowhere/plugins_registry", Lifecycle: life})
	if err != nil {
		t.Fatal(err)
	}
	a := newAdvert(gpu, v, p)
	return &kubeletCall{T: t, view: v, in: &instance{advert: a}, life: life}
}

func (k *kubeletCall) allocate(data []byte) {
	var r pluginapi.AllocateRequest
	if proto.Unmarshal(data, &r) != nil {
		return
	}
	answer, err := k.in.Allocate(k.Context(), &r)
	if err != nil {
		k.wantSentence(err)
		if held := k.life.held(); len(held) > 0 {
			k.Errorf("refused, and yet held: %v", held)
		}
		return
	}
	if len(answer.GetContainerResponses()) != len(r.GetContainerRequests()) {
		k.Fatalf("%d answers for %d containers", len(answer.GetContainerResponses()), len(r.GetContainerRequests()))
	}
	wanted := map[string]int{}
	for i, c := range r.GetContainerRequests() {
		units := distinct(c.GetDevicesIds())
		for _, id := range units {
			wanted[id]++
			if u, _ := k.view.unit(id); u == nil || !u.healthy || id == "f" {
				k.Errorf("container %d got %q", i, id)
			}
			if wanted[id] > 1 {
				k.Errorf("%q is in two containers", id)
			}
		}
		if k.view.maxReplicas > 0 && len(units) > k.view.maxReplicas {
			k.Errorf("container %d got %d replicas", i, len(units))
		}
		if got, want := given(answer.GetContainerResponses()[i]), devicesNamed(units); !slices.Equal(got, want) {
			k.Errorf("container %d asked for %q and got %q", i, want, got)
		}
	}
	if held := k.life.held(); !maps.Equal(wanted, held) {
		k.Errorf("held is %v, given %v", held, wanted)
	}
}

// given are the devices that a container gets, whatever the way.
func given(answer *pluginapi.ContainerAllocateResponse) []string {
	var all []string
	for _, d := range answer.GetCdiDevices() {
		all = append(all, strings.TrimPrefix(d.GetName(), "accelmux.io/mock="))
	}
	for _, value := range answer.GetAnnotations() {
		for name := range strings.SplitSeq(value, ",") {
			all = append(all, strings.TrimPrefix(name, "accelmux.io/mock="))
		}
	}
	for _, d := range answer.GetDevices() {
		all = append(all, strings.TrimPrefix(d.GetHostPath(), "/dev/"))
	}
	return distinct(all)
}

// devicesNamed are the devices of units.
func devicesNamed(units []string) []string {
	var all []string
	for _, id := range units {
		device, _, _ := strings.Cut(id, "::")
		all = append(all, device)
	}
	return distinct(all)
}

func (k *kubeletCall) prefer(data []byte) {
	var r pluginapi.PreferredAllocationRequest
	if proto.Unmarshal(data, &r) != nil {
		return
	}
	answer, err := k.in.GetPreferredAllocation(k.Context(), &r)
	if err != nil {
		k.wantSentence(err)
		return
	}
	if len(answer.GetContainerResponses()) != len(r.GetContainerRequests()) {
		k.Fatalf("%d answers for %d containers", len(answer.GetContainerResponses()), len(r.GetContainerRequests()))
	}
	for i, c := range r.GetContainerRequests() {
		got := answer.GetContainerResponses()[i].GetDeviceIDs()
		if len(distinct(got)) != len(got) || len(got) > max(0, int(c.GetAllocationSize())) {
			k.Errorf("container %d asks for %d and should have %q", i, c.GetAllocationSize(), got)
		}
		for _, id := range got {
			u, _ := k.view.unit(id)
			must := slices.Contains(c.GetMustIncludeDeviceIDs(), id)
			if !must && (u == nil || !u.healthy || !slices.Contains(c.GetAvailableDeviceIDs(), id)) {
				k.Errorf("container %d should have %q, which is not to be had", i, id)
			}
		}
	}
}

func (k *kubeletCall) preStart(data []byte) {
	var r pluginapi.PreStartContainerRequest
	if proto.Unmarshal(data, &r) != nil {
		return
	}
	if _, err := k.in.PreStartContainer(k.Context(), &r); err != nil {
		k.wantSentence(err)
	}
}

// wantSentence fails unless the error is what a pod's owner can read.
func (k *kubeletCall) wantSentence(err error) {
	k.Helper()
	s := status.Convert(err)
	text := s.Message()
	switch {
	case s.Code() == codes.Unknown:
		k.Errorf("no code: %v", err)
	case !strings.Contains(text, gpu):
		k.Errorf("%q does not name the resource", text)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		k.Errorf("not printable: %q", text)
	case len(text) > maxErrorText:
		k.Errorf("%d bytes of error", len(text))
	}
}
