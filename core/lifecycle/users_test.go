package lifecycle

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/openfiles"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// using is a device with nodes; all have /dev/all.
func using(key inventory.Key, nodes ...string) *inventory.Device {
	d := &inventory.Device{Key: key}
	for _, node := range append(nodes, "/dev/all") {
		d.Edits.DeviceNodes = append(d.Edits.DeviceNodes, inventory.DeviceNode{HostPath: node})
	}
	return d
}

var python = openfiles.Processes{{PID: 7, Name: "python"}}

// Verifies that no device is reset while a process has a node of its own open, or while that is not known; and who looks.
func TestResetOfUsedDevice(t *testing.T) {
	for name, c := range map[string]struct {
		look   bool
		device *inventory.Device
		users  openfiles.Processes
		err    error
		want   string // "" for a reset
		looks  int
	}{
		"not used":          {true, using(keyA, "/dev/a"), nil, nil, "", 1},
		"used":              {true, using(keyA, "/dev/a"), python, nil, "no reset while processes have /dev/a open: python (7); end them", 1},
		"not known":         {true, using(keyA, "/dev/a"), nil, errors.New("python (7) has 3000000 open files"), "not known whether a process uses the devices: python (7) has 3000000", 1},
		"no node of it":     {true, using(keyA), nil, nil, "device a has no device node of its own", 0},
		"potential":         {true, &inventory.Device{Key: keyA, Potential: true}, nil, nil, "none of them has a device node", 0},
		"the driver's task": {false, using(keyA), python, nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.backend.users, r.backend.usersErr = c.users, c.err
			r.backend.recovers.Store(true)
			r.round = roundWith(&inventory.Snapshot{Backends: []*inventory.Backend{{
				Name: keyA.Backend, Description: inventory.Description{Reset: true, Look: inventory.Look{Reset: c.look}}, Devices: []*inventory.Device{c.device, using(keyB, "/dev/b")},
			}}}, &health.View{})
			group := groupOf(c.device)
			current := &attempt{members: []inventory.Key{keyA}}
			r.l.resets.attempts[group] = current
			r.l.resets.mu.Lock()
			r.l.resets.start(t.Context(), r.round, group, current.members, current)
			r.l.resets.mu.Unlock()
			r.l.calls.Wait()
			if got := current.failure; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("failure %q, want %q", got, c.want)
			}
			if want := map[bool]int{true: 1}[c.want == ""]; len(r.backend.resets) != want {
				t.Errorf("%d resets, want %d", len(r.backend.resets), want)
			}
			if len(r.backend.searched) != c.looks || c.looks > 0 && len(r.backend.searched[0]) != 1 {
				t.Errorf("searched for %v, want %d searches for a node", r.backend.searched, c.looks)
			}
			if r.book.Resetting()[keyA].IsZero() == false {
				t.Error("the device is still being reset")
			}
		})
	}
}

// Verifies that processes on a device before its preparation are reported, or refuse it, as the settings say, but not those of
// another container that has it, too; and that the device is free for the next operation then.
func TestLeftovers(t *testing.T) {
	unknown := errors.New("hostPID")
	report, fail := inventory.Look{Report: true}, inventory.Look{Report: true, Fail: true}
	for name, c := range map[string]struct {
		look      inventory.Look
		shared    bool
		users     openfiles.Processes
		err       error
		want, log string
	}{
		"not asked":            {inventory.Look{Reset: true}, false, python, nil, "", ""},
		"reported":             {report, false, python, nil, "", "python (7)"},
		"reported, unknown":    {report, false, nil, unknown, "", "is not known"},
		"refused":              {fail, false, python, nil, "still have /dev/a open: python (7); end them", ""},
		"refused, unknown":     {fail, false, nil, unknown, "is not known: hostPID", ""},
		"of another container": {fail, true, python, nil, "", ""},
		"none":                 {fail, false, nil, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var log bytes.Buffer
			r.l.log = slog.New(slog.NewTextHandler(&log, nil))
			r.backend.users, r.backend.usersErr = c.users, c.err
			r.round = roundWith(&inventory.Snapshot{Backends: []*inventory.Backend{{
				Name: keyA.Backend, Description: inventory.Description{Prepare: true, Look: c.look},
				Devices: []*inventory.Device{using(keyA, "/dev/a"), using(keyB, "/dev/b")},
			}}}, &health.View{})
			request := &backendv1.PrepareRequest{Devices: []*backendv1.HeldDevice{{Id: keyA.ID, Shared: c.shared}}}
			for range 2 {
				_, err := r.l.callPrepare(t.Context(), keyA.Backend, request, 0)
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			}
			if (log.Len() == 0) != (c.log == "") || !strings.Contains(log.String(), c.log) {
				t.Errorf("logged %q, want %q", log.String(), c.log)
			}
		})
	}
}
