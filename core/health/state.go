package health

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// The payload of the state file is JSON:
//
//	{"bootID":"...","devices":[...]}
//
// Unknown fields are ignored: a newer version may have added them. A change that
// an older reader would get wrong needs another version in the magic. 8,192
// devices with 8 faults each fit into [checkpoint.MaxSize].
const stateMagic = "accelmux-health/1"

type state struct {
	BootID  string        `json:"bootID"`
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
	// ReachSince is missing in files of earlier versions, where it is Since.
	ReachSince time.Time `json:"reachSince,omitzero"`
	// Over is set if the fault is cleared and waits for its delay. Over and Reset are flags,
	// not times: the delay starts again after a restart.
	Over    bool `json:"over,omitempty"`
	Reset   bool `json:"reset,omitempty"`
	Derived bool `json:"derived,omitempty"`
}

// encode returns the payload, the same for the same state.
func (s state) encode() ([]byte, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode health state: %w", err)
	}
	return append(payload, '\n'), nil
}

// storedDevices returns the devices that have faults, sorted.
func storedDevices(records map[inventory.Key]*record) []stateDevice {
	devices := []stateDevice{}
	for _, k := range slices.SortedFunc(maps.Keys(records), inventory.Key.Compare) {
		r := records[k]
		if len(r.faults) == 0 {
			continue
		}
		d := stateDevice{Backend: k.Backend, ID: k.ID, Seen: r.seen.UTC().Round(0)}
		for _, f := range r.faults {
			d.Faults = append(d.Faults, stateFault{
				Code: f.code, Message: f.message, Note: f.note,
				Recovery: f.recovery.String(), Reach: string(f.reach), Since: f.since.UTC().Round(0), ReachSince: f.reachSince.UTC().Round(0),
				Over: f.cleared(), Reset: !f.resetAt.IsZero(), Derived: f.derived,
			})
		}
		devices = append(devices, d)
	}
	return devices
}

func decodeState(payload []byte) (state, error) {
	var s state
	if err := json.Unmarshal(payload, &s); err != nil {
		return state{}, fmt.Errorf("%w: its content is malformed: %w", checkpoint.ErrCorrupt, err)
	}
	return s, nil
}

// restore returns the records of a decoded file, within their bounds. Delays start again at
// now.
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
				reach: inventory.Reach(f.Reach), since: f.Since, reachSince: f.ReachSince, derived: f.Derived,
			}
			if n.reachSince.IsZero() {
				n.reachSince = n.since
			}
			if f.Over {
				n.clearedAt = now
			}
			if f.Reset {
				// The backend was restarted, too: what it reports was measured after the reset.
				n.resetAt = now.Add(-resetGrace)
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

// parseRecovery returns the gravest recovery for an unknown word: a newer version may have
// added a graver one.
func parseRecovery(word string) inventory.Recovery {
	for r := inventory.RecoverySelf; r < inventory.RecoveryReplacement; r++ {
		if r.String() == word {
			return r
		}
	}
	return inventory.RecoveryReplacement
}
