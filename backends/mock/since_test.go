package mock

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/patience"
)

// sinceSettings have links, partitions whose device is listed and such whose is not.
const sinceSettings = `{"devices": [
	{"count": 6, "id": "a-{{.Index}}", "links": {"topology": "all-to-all"}},
	{"count": 2, "id": "b-{{.Number}}", "partitions": {"count": 3}},
	{"count": 2, "id": "c-{{.Number}}", "partitions": {"count": 3, "listParent": true}}]}`

// randomScenario is what may be said of those devices.
func randomScenario(random *rand.Rand) string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	entries := map[string]string{}
	for range random.IntN(6) {
		key := pick("a-0", "a-1", "a-2", "a-3", "a-3", "c-9", "c-10", "c-9-p1", "b-7", "b-7-p0", "b-8-p2")
		if random.IntN(6) == 0 {
			key = pick("a-*", "*", "nobody", "b-*", "c-9-*")
		}
		entry := pick("{fault: {}}", "{fault: {code: y}}", "{recovered: true}", "{unknown: true}", "{}", "{attributes: {x: 1}}", "{attributes: {x: 2}}",
			"{fault: {}, attributes: {x: 1}}", "{prepare: {delay: 1s}}")
		if random.IntN(6) == 0 {
			entry = "{unplugged: true}"
		}
		entries[key] = fmt.Sprintf("%q: %s", key, entry)
	}
	var text []string
	for _, e := range entries {
		text = append(text, e)
	}
	more := ""
	if random.IntN(8) == 0 {
		more = pick("problems: [p]", "plug: [{}]", "garbage: {repeat: true}", "garbage: {repeat: true, kinds: [bad-links]}")
	}
	return "devices: {" + strings.Join(text, ", ") + "}\n" + more
}

// Verifies that what differs between two scenarios, and only that, makes of the inventory
// of the one that of the other; and that a change of few devices is found to be one.
func TestSince(t *testing.T) {
	cfg, err := parseSettings([]byte(sinceSettings))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for seed := range uint64(4000) {
		random := rand.New(rand.NewPCG(seed, 0))
		made := func(text string) *view {
			var p player
			now := time.Now()
			p.load(parsed(t, text), false, now)
			v := &view{playing: p.at(now), cfg: cfg, cleared: map[string]fault{}}
			if random.IntN(4) == 0 {
				v.cleared["a-1"] = fault{Code: "mock-fault", Message: "the scenario says so", Recovery: "self"}
			}
			return v
		}
		one, two := randomScenario(random), randomScenario(random)
		last, now := made(one), made(two)
		changed, ok := now.since(last)
		if !ok {
			continue
		}
		found++
		got, want := last.devices(), now.devices()
		for _, d := range changed {
			i := slices.IndexFunc(got, func(o *sdk.Device) bool { return o.GetId() == d.GetId() })
			if i < 0 {
				t.Fatalf("%s\nafter\n%s\nchanges %s, which is not listed", two, one, d.GetId())
			}
			got[i] = d
		}
		if !slices.EqualFunc(got, want, func(a, b *sdk.Device) bool { return proto.Equal(a, b) }) || !slices.Equal(last.problems(), now.problems()) {
			t.Fatalf("%s\nafter\n%s\nis %v\n%q\nwant %v\n%q", two, one, got, last.problems(), want, now.problems())
		}
	}
	if found < 500 {
		t.Errorf("only %d of 4000 changes were found to be of few devices", found)
	}
}

// Verifies what takes the whole inventory although the devices that are known to differ
// are few, or none: a file that could not be made is tried again then.
func TestSinceTakesTheWhole(t *testing.T) {
	cfg, err := parseSettings([]byte(sinceSettings))
	if err != nil {
		t.Fatal(err)
	}
	other, err := parseSettings([]byte(sinceSettings))
	if err != nil {
		t.Fatal(err)
	}
	if devices, ok := (&view{cfg: cfg}).since(&view{cfg: cfg}); !ok || len(devices) > 0 {
		t.Errorf("%v, %t of two views that are the same", devices, ok)
	}
	faults := map[string]entry{}
	for _, s := range cfg.specs[:len(cfg.specs)/4+2] {
		faults[s.device.GetId()] = entry{Unknown: true}
	}
	for name, last := range map[string]*view{
		"none published": {},
		"other settings": {cfg: other},
		"unmade files":   {cfg: cfg, unmade: []string{"a-0: no"}},
		"a bad file":     {cfg: cfg, problem: "no scenario"},
		"many devices":   {cfg: cfg, playing: playing{moment: moment{Devices: faults}}},
	} {
		if devices, ok := (&view{cfg: cfg}).since(last); ok {
			t.Errorf("%s: changes of %v", name, devices)
		}
	}
}

// Verifies that a fault of one device is sent alone to a core that takes that.
func TestFaultIsSentAlone(t *testing.T) {
	r := watchRig(t, t.TempDir(), "", &backendv1.WatchRequest{HeartbeatInterval: durationpb.New(100 * time.Millisecond), Changes: true})
	r.inventory("the start", healthOf("mock-0", healthy))
	r.write("devices: {mock-1: {fault: {}}}")
	late := time.After(patience.Long)
	for {
		select {
		case e := <-r.events:
			if e.GetHeartbeat() != nil {
				continue
			}
			c := e.GetChanges()
			if len(c.GetDevices()) != 1 || c.GetDevices()[0].GetId() != "mock-1" || c.GetDevices()[0].GetHealth().GetState() != unhealthy {
				t.Errorf("%v was sent, want changes of mock-1", e)
			}
			return
		case <-late:
			t.Fatal("nothing was sent")
		}
	}
}

// borrowed is a backend that only lends its reporter.
type borrowed struct{ out chan *sdk.Reporter }

func (borrowed) Describe() sdk.Description {
	return sdk.Description{Name: "borrowed", Vendor: "Test", Version: "1.0.0", Classes: []string{"gpu"}}
}

func (b borrowed) Watch(ctx context.Context, out *sdk.Reporter) error {
	b.out <- out
	<-ctx.Done()
	return ctx.Err()
}

// reporter is one to which a stream listens.
func reporter(tb testing.TB) *sdk.Reporter {
	b := borrowed{make(chan *sdk.Reporter)}
	server, err := sdk.NewServer(b, nil)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	events, ended := make(chan *backendv1.WatchResponse), make(chan error, 1)
	go func() { ended <- server.Watch(&backendv1.WatchRequest{Changes: true}, sdktest.NewStream(ctx, events)) }()
	go func() {
		for range events {
			continue
		}
	}()
	tb.Cleanup(func() {
		cancel()
		<-ended
		close(events)
		if err := server.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return <-b.out
}

// BenchmarkFlap is a fault of one of 50,000 devices and its end, from the scenario file to
// what is published.
func BenchmarkFlap(b *testing.B) {
	log := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // each scenario that is loaded is told of
	b.Cleanup(func() { slog.SetDefault(log) })
	file := filepath.Join(b.TempDir(), "scenario.yaml")
	m := New(nil)
	if err := m.Configure(b.Context(), []byte(fmt.Sprintf(`{"count": 4000, "scenarioFile": %q}`, file)), sdk.HostPaths{}); err != nil {
		b.Fatal(err)
	}
	out := reporter(b)
	v := m.now()
	publish(out, &v, &view{})
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		text := ""
		if n%2 == 1 {
			text = fmt.Sprintf("devices: {mock-%d: {fault: {code: x}}}", n*7%4_000)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		next := m.now()
		publish(out, &next, &v)
		v = next
	}
}
