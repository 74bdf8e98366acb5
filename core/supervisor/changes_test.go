package supervisor_test

import (
	"bytes"
	"fmt"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// changes are those of a backend in the part of one that sends them.
func (b *backend) changes(generation, base uint64, devices ...*backendv1.Device) *backendv1.WatchResponse {
	all := b.inventory(generation).GetInventory()
	return &backendv1.WatchResponse{Event: &backendv1.WatchResponse_Changes{Changes: &backendv1.Changes{
		Generation: generation, Base: base, Problems: append(all.GetProblems(), "by changes"), SettingsRevision: 7, Devices: devices,
	}}}
}

// command are the changes that a command is for.
func (b *backend) command(command string, generation uint64) *backendv1.WatchResponse {
	switch command {
	case "other-base":
		return b.changes(generation, generation)
	case "stranger":
		return b.changes(generation, generation-1, &backendv1.Device{Id: "stranger"})
	case "swelling-changes":
		device := &backendv1.Device{}
		device.ProtoReflect().SetUnknown(bytes.Repeat([]byte{8<<3 | 2, 0}, 4_000_000)) // empty links
		return b.changes(generation, generation-1, device)
	}
	return b.changes(generation, generation-1)
}

// Changes become the inventory that they lead to. Those that fit none are refused as an
// inventory is, and so end the process; the next one begins with a whole inventory.
func TestChanges(t *testing.T) {
	for command, want := range map[string]string{
		"other-base": "its changes are refused: they change generation 4, but the one before them on the stream is 3",
		"stranger":   `its changes are refused: the device "stranger" is not in the inventory that they change`,
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fast())
			r.run(spec("normal"))
			for n := range 2 {
				if err := r.command(t.Context(), "changes"); err != nil {
					t.Fatal(err)
				}
				report := fmt.Sprintf("report b %d", n+2)
				r.until(t, "the changes have come", func() bool { return r.count(report) == 1 })
			}
			r.mu.Lock()
			last := r.reports["b"]
			r.mu.Unlock()
			if n := len(last.GetProblems()); last.GetSettingsRevision() != 7 || n == 0 || last.GetProblems()[n-1] != "by changes" {
				t.Errorf("the inventory is %v", last)
			}
			_ = r.command(t.Context(), command) // it may be ended before it answers
			r.untilError(want)
			r.until(t, "it is back", func() bool { return r.count("report b 1") == 2 && r.count("lost b") == 1 })
		})
	}
}
