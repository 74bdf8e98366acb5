package health

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// The payload of the state file is JSON:
//
//	{"bootID":"...","journal":7,"devices":[...]}
//
// A frame of the journal has devices as they are from then on, or all that there are:
//
//	{"bootID":"...","devices":[...]}
//	{"bootID":"...","whole":true,"devices":[...]}
//
// Unknown fields are ignored: a newer version may have added them. A change that
// an older reader would get wrong needs another version in the magic. 8,192
// devices with 16 faults each fit into [checkpoint.MaxSize].
const (
	stateMagic = "accelmux-health/1"
	// maxStoredMessage is what the file keeps of a message: enough to know it by.
	maxStoredMessage = 256
)

type state struct {
	BootID string `json:"bootID"`
	// Journal is the number of the last frame of the journal that this covers; nil in a
	// file of a version that knew of no journal, which covers all.
	Journal *uint64 `json:"journal,omitempty"`
	// Whole is a frame's: devices that are not in it have no faults.
	Whole   bool          `json:"whole,omitempty"`
	Devices []stateDevice `json:"devices"`
}

type stateDevice struct {
	Backend string       `json:"backend"`
	ID      string       `json:"id"`
	Seen    time.Time    `json:"seen"`
	Faults  []stateFault `json:"faults"`
}

type stateFault struct {
	Code     string    `json:"code"`
	Message  string    `json:"message,omitempty"`
	Note     string    `json:"note,omitempty"`
	Recovery string    `json:"recovery"`
	Reach    string    `json:"reach,omitempty"`
	Since    time.Time `json:"since"`
	// Over and Reset are flags, not times: the delay starts again after a restart.
	Over    bool `json:"over,omitempty"`
	Reset   bool `json:"reset,omitempty"`
	Derived bool `json:"derived,omitempty"`
}

// encode is the payload, the same for the same state.
func (s state) encode() ([]byte, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode health state: %w", err)
	}
	return append(payload, '\n'), nil
}

// storedDevices are those that have faults, sorted.
func storedDevices(records map[inventory.Key]*record) []stateDevice {
	devices := []stateDevice{}
	for _, k := range slices.SortedFunc(maps.Keys(records), byKey) {
		if r := records[k]; len(r.faults) > 0 {
			devices = append(devices, storedDevice(k, r))
		}
	}
	return devices
}

func byKey(a, b inventory.Key) int {
	return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.ID, b.ID))
}

// storedDevice is one without faults for a nil record.
func storedDevice(k inventory.Key, r *record) stateDevice {
	d := stateDevice{Backend: k.Backend, ID: k.ID}
	if r == nil {
		return d
	}
	d.Seen = r.seen.UTC().Round(0)
	for _, f := range r.faults {
		d.Faults = append(d.Faults, stateFault{
			Code: f.code, Message: shorten(f.message, maxStoredMessage), Note: shorten(f.note, maxStoredMessage),
			Recovery: f.recovery.String(), Reach: string(f.reach), Since: f.since.UTC().Round(0),
			Over: !f.over.IsZero(), Reset: !f.reset.IsZero(), Derived: f.derived,
		})
	}
	return d
}

// frame is the journal's frame of what changed since the last one, nil if nothing did.
// j.mu is held.
func (j *Judge) frame() *state {
	if len(j.changed) == 0 {
		return nil
	}
	s := &state{BootID: j.file.bootID, Devices: make([]stateDevice, 0, len(j.changed))}
	for _, k := range slices.SortedFunc(maps.Keys(j.changed), byKey) {
		s.Devices = append(s.Devices, storedDevice(k, j.records[k]))
	}
	clear(j.changed)
	return s
}

// wholeFrame is a frame of all that is known.
func (j *Judge) wholeFrame() ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return state{BootID: j.file.bootID, Whole: true, Devices: storedDevices(j.records)}.encode()
}

// follow is the state after the frames of a journal. What is of another boot, or makes
// no sense, is passed over.
func (s state) follow(frames [][]byte) state {
	devices := map[inventory.Key]stateDevice{}
	for _, d := range s.Devices {
		k := inventory.Key{Backend: d.Backend, ID: d.ID}
		if _, twice := devices[k]; !twice {
			devices[k] = d
		}
	}
	for _, payload := range frames {
		frame, err := decodeState(payload)
		if err != nil || frame.BootID != s.BootID {
			continue
		}
		if frame.Whole {
			clear(devices)
		}
		for _, d := range frame.Devices {
			devices[inventory.Key{Backend: d.Backend, ID: d.ID}] = d
		}
	}
	s.Devices = s.Devices[:0:0]
	for _, k := range slices.SortedFunc(maps.Keys(devices), byKey) {
		s.Devices = append(s.Devices, devices[k])
	}
	return s
}

func decodeState(payload []byte) (state, error) {
	var s state
	if err := json.Unmarshal(payload, &s); err != nil {
		return state{}, fmt.Errorf("%w: its content is malformed: %w", checkpoint.ErrCorrupt, err)
	}
	return s, nil
}

// restore makes records of a decoded file, within the bounds that hold for them.
// Delays start again at now.
func (s state) restore(now time.Time) map[inventory.Key]*record {
	records := make(map[inventory.Key]*record, len(s.Devices))
	for _, d := range s.Devices {
		k := inventory.Key{Backend: d.Backend, ID: d.ID}
		if d.Backend == "" || d.ID == "" || records[k] != nil {
			continue
		}
		r := &record{seen: d.Seen}
		for _, f := range d.Faults {
			if f.Code == "" || r.find(f.Code, f.Derived) != nil {
				continue
			}
			n := &fault{
				code: f.Code, message: f.Message, note: f.Note, recovery: parseRecovery(f.Recovery),
				reach: inventory.Reach(f.Reach), since: f.Since, derived: f.Derived,
			}
			if f.Over {
				n.over = now
			}
			if f.Reset {
				// The backend was restarted with us: what it says is no echo.
				n.reset = now.Add(-resetGrace)
			}
			r.faults = append(r.faults, n)
		}
		r.sort()
		if len(r.faults) > maxFaults {
			r.faults = r.faults[:maxFaults]
		}
		if len(r.faults) > 0 {
			records[k] = r
		}
	}
	return records
}

// parseRecovery takes a word it does not know for the gravest recovery: a newer
// version may have thought of a graver one.
func parseRecovery(word string) inventory.Recovery {
	for r := inventory.RecoverySelf; r < inventory.RecoveryReplacement; r++ {
		if r.String() == word {
			return r
		}
	}
	return inventory.RecoveryReplacement
}

// shorten cuts s to at most limit bytes without splitting a character.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
