package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// unreadIn returns what an inventory has as unread: "a0:EIO 0000:01:00.0:EIO *:EIO".
func unreadIn(inv *backendv1.Inventory) string {
	var all []string
	for _, u := range inv.GetUnread() {
		name := u.GetDeviceId() + u.GetPciBusId()
		if name == "" {
			name = "*"
		}
		all = append(all, name+":"+u.GetReason())
	}
	return strings.Join(all, " ")
}

// A process that has never seen its hardware and cannot look now does not say that there is none: for what it cannot read, what
// a problem makes it leave out, and what is on the bus without its driver.
func TestUnreadOfANewProcess(t *testing.T) {
	eio := errors.New("EIO")
	for name, tc := range map[string]struct {
		first Scan
		want  string
	}{
		"nothing":                {Scan{}, ""},
		"everything":             {Scan{Err: eio}, "*:EIO"},
		"one on the bus":         {Scan{Problems: []Problem{{Device: "0000:01:00.0 (card)", Lost: true, Err: eio}}}, "0000:01:00.0:EIO"},
		"one elsewhere":          {Scan{Problems: []Problem{{Device: "region3", Lost: true, Err: eio}}}, "*:EIO"},
		"some":                   {Scan{Problems: []Problem{{Lost: true, Err: eio}}}, "*:EIO"},
		"another problem":        {Scan{Problems: []Problem{{Device: "0000:01:00.0", Err: eio}}}, ""},
		"without the driver":     {Scan{Unloaded: true, Away: map[pci.Address]string{{Bus: 2}: "EIO", {Bus: 1}: "EIO"}}, "0000:01:00.0:EIO 0000:02:00.0:EIO"},
		"driver without devices": {Scan{Unloaded: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{name: "f", result: tc.first}
			run(t, time.Minute, func(r *rig) {
				r.idle(time.Second)
				if got := unreadIn(r.Last); got != tc.want || codes(r.Last) != "" {
					t.Errorf("unread are %s of %s, want %s", got, codes(r.Last), tc.want)
				}
				f.set(func() { f.result = Scan{Units: []Unit{unitOf("a", 1, "a0")}} })
				r.event()
				if r.wait("a0="); unreadIn(r.Last) != "" {
					t.Errorf("unread are %s after all was read", unreadIn(r.Last))
				}
			}, f)
		})
	}
}

// A driver that hangs at the first scan says nothing of its devices, and a known one that is left out is listed as before.
func TestUnreadWhileScansHang(t *testing.T) {
	f, other := &fake{name: "f", hangs: true}, &fake{name: "other", result: Scan{Units: []Unit{unitOf("b", 2, "b0")}}}
	run(t, time.Minute, func(r *rig) {
		r.wait("b0=")
		if got := unreadIn(r.Last); !strings.HasPrefix(got, "*:the FPGAs of the driver f were not read yet since ") {
			t.Errorf("unread are %s", got)
		}
		f.set(func() {
			f.result = Scan{Units: []Unit{unitOf("a", 1, "a0")}}
			close(f.hold)
		})
		if r.wait("a0= b0="); unreadIn(r.Last) != "" {
			t.Errorf("unread are %s after the scan", unreadIn(r.Last))
		}
		other.set(func() {
			other.result = Scan{Problems: []Problem{{Device: "0000:02:00.0", Lost: true, Err: errors.New("EIO")}}}
		})
		r.event()
		r.wait("a0= b0=card-incomplete")
	}, f, other)
}
