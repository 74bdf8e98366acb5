package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/runtime"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/apiserver"
	"github.com/accelmux/accelmux/test/hostile"
)

// longest is more than any text about a backend has, in bytes: several texts for people may be in one.
const longest = 8 << 10

// wrongIn reports what is wrong with a text that people see.
func wrongIn(text string) string {
	switch {
	case !utf8.ValidString(text):
		return "it is no UTF-8"
	case strings.Contains(text, strings.Repeat("z", longest)):
		return "it is too long"
	}
	for _, r := range text {
		if !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) {
			return fmt.Sprintf("it has %U", r)
		}
	}
	return ""
}

// texts are what an agent has put out, each once.
type texts struct {
	mu  sync.Mutex
	all map[string]bool
}

func (t *texts) add(more ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range more {
		t.all[text] = true
	}
}

// addJSON adds all texts of a value.
func (t *texts) addJSON(value any) {
	encoded, _ := json.Marshal(value) // a report
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case string:
			t.add(v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				t.add(name)
				walk(e)
			}
		}
	}
	var decoded any
	if json.Unmarshal(encoded, &decoded) == nil {
		walk(decoded)
	}
}

// rawLog keeps the texts of records as they are: handlers for people and programs would escape them.
type rawLog struct{ *texts }

func (rawLog) Enabled(context.Context, slog.Level) bool { return true }

func (l rawLog) Handle(_ context.Context, record slog.Record) error {
	l.add(record.Message)
	record.Attrs(func(a slog.Attr) bool { l.add(a.Key, a.Value.String()); return true })
	return nil
}

func (l rawLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l rawLog) WithGroup(string) slog.Handler      { return l }

// Verifies for every text that a backend can send, found in the contract itself, that none comes out of the agent with what
// cannot be printed, or at any length: in logs, status, devices, telemetry, metrics, the page, CDI specs, Events, ResourceSlices
// and kubelet's errors.
func TestStains(t *testing.T) {
	t.Parallel()
	starts := func(n *node, seen *texts) {
		for range 30 { // Prepare stains another text each time
			n.eventually("a pod gets a device, though a stained answer made one wait for its reset", func() bool {
				_, err := n.kubelet.Allocate(n.Context(), "p", "main", bad, 1)
				if err != nil {
					seen.add(err.Error())
				}
				return err == nil
			})
			if err := n.startContainer("p"); err != nil {
				seen.add(err.Error())
			}
			n.kubelet.Free("p")
		}
	}
	for _, misdeed := range hostile.Stains() {
		begin, state := func(*node, *texts) {}, supervisor.Running
		switch misdeed.Name {
		case "stained-answers", "stained-statuses":
			begin = starts
		case "stained-settings":
			state = supervisor.Misconfigured
		case "stained-output", "stained-end", "stained-certificate":
			state = supervisor.Quarantined
		}
		t.Run(misdeed.Name, func(t *testing.T) {
			t.Parallel()
			n, seen := newNode(t), &texts{all: map[string]bool{}}
			n.startKubelet()
			n.configure(outcome{interval: "1s"}.config(misdeed.Name))
			options := n.options()
			options.Timing.Supervisor = order{Dir: n.dir}.options().Timing.Supervisor
			options.Log = slog.New(rawLog{seen})
			options.Timing.Events = events.Timing{Spread: time.Millisecond}
			server, _ := n.connect(&options)
			withMetrics(&options)
			n.startAgentWith(options)
			n.wantCounts(bad, hostile.Devices, hostile.Devices)
			client := status.NewClient(n.path("run"))
			n.write("on", "")
			if state == supervisor.Misconfigured || misdeed.Name == "stained-output" || misdeed.Name == "stained-certificate" {
				if err := unix.Kill(n.backend("bad").PID, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			begin(n, seen)
			n.eventually("the stains show", func() bool {
				if telemetry, err := client.Telemetry(n.Context()); err == nil {
					seen.addJSON(telemetry)
				}
				return n.backend("bad").State == string(state) && strings.Contains(n.problems(), "STAIN")
			})
			if state == supervisor.Quarantined || misdeed.Name == "stained-inventory" {
				n.eventually("the stains are in Events", func() bool { return strings.Contains(fmt.Sprint(seen.addObjects(server, apiserver.Events())), "STAIN") })
			}
			n.collect(seen)
			seen.mu.Lock()
			defer seen.mu.Unlock()
			found := 0
			for text := range seen.all {
				if strings.Contains(text, "STAIN") {
					found++
				}
				if wrong := wrongIn(text); wrong != "" {
					t.Errorf("%s: %.300q", wrong, text)
				}
			}
			if found == 0 {
				t.Error("nothing of the backend's was seen")
			}
		})
	}
}

// addObjects adds the objects of an API server, and returns them.
func (t *texts) addObjects(server *apiserver.Server, of apiserver.Resource) []runtime.Object {
	objects, _ := server.Objects(of)
	for _, o := range objects {
		t.addJSON(o)
	}
	return objects
}

// Verifies the same of the health in pod.status, and of ResourceSlices.
func TestStainsInClaims(t *testing.T) {
	t.Parallel()
	n, seen := newNode(t), &texts{all: map[string]bool{}}
	n.startKubelet()
	n.configure(strings.Replace(outcome{}.config("stained-inventory"), "example.com/bad, ", "example.com/bad, api: dra, ", 1))
	options := n.options()
	server, _ := n.connect(&options)
	n.startAgentWith(options)
	socket := n.path("kubelet", "plugins", "bad.accelmux.io", "dra.sock")
	n.eventually("the driver serves kubelet", func() bool { _, err := os.Stat(socket); return err == nil })
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // of a test
	n.write("on", "")
	stream, err := drahealthv1.NewDRAResourceHealthClient(conn).NodeWatchResources(n.soon(), &drahealthv1.NodeWatchResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for found := false; !found; {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, d := range response.GetDevices() {
			names = append(names, d.GetDevice().GetDeviceName())
			seen.add(d.GetMessage(), d.GetDevice().GetDeviceName())
			found = found || strings.Contains(d.GetMessage(), "STAIN")
		}
	}
	n.eventually("all devices are published", func() bool {
		slicesOf := fmt.Sprint(seen.addObjects(server, apiserver.Slices()))
		return !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(slicesOf, name) })
	})
	for text := range seen.all {
		if wrong := wrongIn(text); wrong != "" {
			t.Errorf("%s: %.300q", wrong, text)
		}
	}
}

// collect adds what the agent shows and has written.
func (n *node) collect(seen *texts) {
	n.Helper()
	seen.addJSON(n.agent.Report())
	seen.addJSON(n.agent.Devices())
	seen.add(strings.FieldsFunc(n.metrics()+"\n"+n.page("localhost"), func(r rune) bool { return r == '\n' || r == '\t' })...)
	specs, err := filepath.Glob(n.path("cdi", "*"))
	if err != nil {
		n.Fatal(err)
	}
	for _, path := range specs {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it was replaced meanwhile
		}
		var spec any
		if err := json.Unmarshal(text, &spec); err != nil {
			n.Errorf("%s: %v", path, err)
		}
		seen.addJSON(spec)
	}
}
