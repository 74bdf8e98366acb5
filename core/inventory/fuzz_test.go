package inventory

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// FuzzReport verifies for any bytes that are an inventory that nothing panics, that accepted
// devices are within the limits, and that the same report again changes nothing.
func FuzzReport(f *testing.F) {
	full := inv(1, wireDevice("a"), wireDevice("b"), wireDevice("a"), &backendv1.Device{})
	full.Devices[0].Links = []*backendv1.Link{{PeerId: "b", Kind: 1}, {PeerId: "c"}}
	full.Devices[1].ParentId = "a"
	full.Devices[1].Health = &backendv1.Health{State: 2, Code: "c", Recovery: 3, Message: "m"}
	full.Problems = []string{"one", "\x00"}
	for _, seed := range []*backendv1.Inventory{inv(1), inv(1, wireDevice("a")), full} {
		data, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var w backendv1.Inventory
		if proto.Unmarshal(data, &w) != nil {
			return
		}
		w.Generation = 1
		// As package plug does.
		for i, p := range w.GetProblems() {
			w.Problems[i] = text.Printable(p, maxMessage-len("..."))
		}
		for _, d := range w.GetDevices() {
			if d.GetHealth() != nil {
				d.Health.Message = text.Printable(d.GetHealth().GetMessage(), maxMessage-len("..."))
			}
		}
		if len(w.Devices) < MaxDevices {
			// With one valid device there is always something to check.
			w.Devices = append(w.Devices, wireDevice("good"))
		}
		s, _ := newTestStore(t)
		if err := report(s, "mock", &w); err != nil {
			if !text.IsClean(err.Error()) || len(err.Error()) > 2*maxMessage {
				t.Errorf("error is not printable: %q", err)
			}
			return
		}
		b := s.Snapshot().Backends[0]
		checkBackend(t, b)
		again := proto.CloneOf(&w)
		again.Generation = 2
		if err := report(s, "mock", again); err != nil {
			t.Fatal(err)
		}
		if next := s.Snapshot(); next.Generation != 1 {
			t.Error("the same report again is a change")
		}
	})
}

func checkBackend(t *testing.T, b *Backend) {
	t.Helper()
	if len(b.Devices) > MaxDevices || len(b.Problems) > 3*(MaxProblems+1) {
		t.Errorf("%d devices, %d problems", len(b.Devices), len(b.Problems))
	}
	for _, p := range b.Problems {
		if !text.IsClean(p.Device+p.Message) || len(p.Message) > maxMessage || len(p.Device) > 5*maxQuote {
			t.Errorf("problem is not printable: %+v", p)
		}
	}
	listed := byID(b.Devices)
	if len(listed) != len(b.Devices) {
		t.Error("IDs are not unique")
	}
	for _, d := range b.Devices {
		checkDevice(t, d, listed)
	}
}

func checkDevice(t *testing.T, d *Device, listed map[string]*Device) {
	t.Helper()
	bad := func(what string, value any) {
		t.Helper()
		t.Errorf("device %q: %s: %+v", d.ID, what, value)
	}
	if checkID("", d.ID) != nil || d.Backend != "mock" || d.Class != "gpu" && d.Class != "fpga" {
		bad("key and class", d.Key)
	}
	if len(d.Attributes)+len(d.Capacities) > maxNames || len(d.Links) > maxLinks || len(d.NUMANodes) > maxNUMANodes {
		bad("counts", d)
	}
	h := d.Health
	if len(h.Message) > maxMessage || !text.IsClean(h.Message) || h.Recovered && h.State != StateHealthy ||
		(h.State == StateUnhealthy) != (h.Code != "") || (h.State == StateUnhealthy) != (h.Recovery != 0) {
		bad("health", h)
	}
	for _, l := range d.Links {
		if listed[l.Peer] == nil || l.Peer == d.ID || l.Kind == "" || l.Count < 1 || l.Distance < 0 {
			bad("link", l)
		}
	}
	level := 0
	for up := listed[d.Parent]; up != nil; up = listed[up.Parent] {
		if level++; level > maxParents {
			bad("parents", d.Parent)
			break
		}
	}
	for name, value := range d.Edits.Env.All() {
		if strings.HasPrefix(name, "LD_") || strings.ContainsAny(value, "\x00\n") || !nameSyntax.MatchString(name) {
			bad("env", name+"="+value)
		}
	}
	for _, n := range d.Edits.DeviceNodes {
		if !strings.HasPrefix(n.HostPath, "/dev/") || strings.Contains(n.HostPath, "..") && checkPath("", n.HostPath) != nil ||
			n.HostPath == "/dev/mem" || n.Permissions == "" || strings.Trim(n.Permissions, "rwm") != "" {
			bad("node", n)
		}
	}
	for _, m := range d.Edits.Mounts {
		if !strings.HasPrefix(m.HostPath, "/opt/acme/") {
			bad("mount", m)
		}
	}
	for _, h := range d.Edits.Hooks {
		if h.Path != "/usr/bin/acme-hook" {
			bad("hook", h)
		}
	}
}
