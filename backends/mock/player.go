package mock

import (
	"maps"
	"time"
)

// player plays a scenario: it returns the state at a time, and runs each action once.
//
// An action begins when its file is loaded, and is remembered by its kind and ID until the file
// no longer has it. If the file is older than the process, the process regards its actions as
// done by an earlier process, unless they repeat.
type player struct {
	scenario *scenario
	loaded   time.Time
	began    map[string]time.Time // by kind and ID; zero: a process before has done it
}

// never is the time until an event that does not come.
const never = time.Duration(1<<63 - 1)

// load starts a scenario. Old: its file is older than this process.
func (p *player) load(s *scenario, old bool, now time.Time) {
	began := map[string]time.Time{}
	for kind, a := range s.actions() {
		key := kind + "/" + string(a.ID)
		switch before, known := p.began[key]; {
		case old && !a.Repeat:
			began[key] = time.Time{}
		case known:
			began[key] = before
		default:
			began[key] = now
		}
	}
	p.scenario, p.loaded, p.began = s, now, began
}

// playing is the state at a time.
type playing struct {
	entries map[string]entry // of the scenario and of the steps that have come
	step    int              // how many steps have come
	crash   bool
	hang    bool
	garbage bool
	next    time.Duration // until something changes on its own
}

// at returns the state at a time.
func (p *player) at(now time.Time) playing {
	s := p.scenario
	v := playing{next: never, entries: s.Devices}
	if len(s.Steps) > 0 {
		v.entries = map[string]entry{}
		maps.Copy(v.entries, s.Devices)
	}
	since := now.Sub(p.loaded)
	for _, step := range s.Steps {
		if d := time.Duration(step.After); d > since {
			v.next = d - since
			break
		}
		maps.Copy(v.entries, step.Devices)
		v.step++
	}
	for kind, a := range s.actions() {
		began := p.began[kind+"/"+string(a.ID)]
		switch {
		case began.IsZero():
		case kind == "crash":
			v.crash = true
		case kind == "hang":
			v.hang = true
		case s.Garbage.For == 0:
			v.garbage = true
		default:
			left := time.Duration(s.Garbage.For) - now.Sub(began)
			if v.garbage = left > 0; v.garbage {
				v.next = min(v.next, left)
			}
		}
	}
	return v
}
