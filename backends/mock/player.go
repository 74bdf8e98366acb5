package mock

import (
	"maps"
	"slices"
	"time"
)

// player plays a scenario: it says what holds at a time, and sees to it that an
// action happens once.
//
// An action is pending -> running -> over, under its kind and ID:
//
//	file loaded, action new to this process    -> pending
//	its time has come (at once, or its step)   -> running
//	its "for" is over                          -> over
//	the file no longer has it                  -> forgotten
//
// A process that finds an action in a file that is older than itself takes it
// as over, unless it repeats: the process before, which is gone, has done it.
type player struct {
	scenario *scenario
	loaded   time.Time
	began    map[string]time.Time // running or over, by kind and ID
	over     map[string]bool
}

// never is when something comes that does not.
const never = time.Duration(1<<63 - 1)

// load starts a scenario. Old says that its file is older than this process.
func (p *player) load(s *scenario, old bool, now time.Time) {
	p.scenario, p.loaded = s, now
	if p.over == nil {
		p.began, p.over = map[string]time.Time{}, map[string]bool{}
	}
	present := map[string]bool{}
	for _, m := range p.moments() {
		for kind, a := range m.actions() {
			key := kind + "/" + string(a.ID)
			present[key] = true
			if old && !a.Repeat {
				p.over[key] = true
			}
		}
	}
	gone := func(key string) bool { return !present[key] }
	maps.DeleteFunc(p.over, func(key string, _ bool) bool { return gone(key) })
	maps.DeleteFunc(p.began, func(key string, _ time.Time) bool { return gone(key) })
}

// moments are that of the start and those of all steps.
func (p *player) moments() []*moment {
	all := []*moment{&p.scenario.moment}
	for i := range p.scenario.Steps {
		all = append(all, &p.scenario.Steps[i].moment)
	}
	return all
}

// playing is what holds now.
type playing struct {
	moment
	step    int  // how many steps have come
	crash   bool // the crash happens now
	hang    bool
	garbage bool
	next    time.Duration // until something changes by itself
}

// at says what holds at a time and marks the actions that begin.
func (p *player) at(now time.Time) playing {
	v := playing{next: never}
	if p.scenario == nil {
		return v
	}
	v.moment = p.scenario.moment
	since := now.Sub(p.loaded)
	for _, s := range p.scenario.Steps {
		if d := time.Duration(s.After); d > since {
			v.next = d - since
			break
		}
		v.merge(&s.moment)
		v.step++
	}
	v.crash = v.Crash != nil && p.running("crash", v.Crash.action, 0, now, &v.next)
	v.hang = v.Hang != nil && p.running("hang", v.Hang.action, time.Duration(v.Hang.For), now, &v.next)
	v.garbage = v.Garbage != nil && p.running("garbage", v.Garbage.action, time.Duration(v.Garbage.For), now, &v.next)
	return v
}

// running says whether an action that is due is going on.
func (p *player) running(kind string, a action, lasts time.Duration, now time.Time, next *time.Duration) bool {
	key := kind + "/" + string(a.ID)
	if p.over[key] {
		return false
	}
	began, ok := p.began[key]
	if !ok {
		began = now
		p.began[key] = now
	}
	if lasts == 0 {
		return true
	}
	left := lasts - now.Sub(began)
	if left <= 0 {
		p.over[key] = true
		return false
	}
	*next = min(*next, left)
	return true
}

// merge applies a step.
func (v *playing) merge(m *moment) {
	if len(m.Devices) > 0 {
		v.Devices = maps.Clone(v.Devices)
		if v.Devices == nil {
			v.Devices = map[string]entry{}
		}
		maps.Copy(v.Devices, m.Devices)
	}
	if m.Plug != nil {
		v.Plug, v.plugged = m.Plug, m.plugged
	}
	if m.Problems != nil {
		v.Problems = slices.Clone(m.Problems)
	}
	if m.Crash != nil {
		v.Crash = m.Crash
	}
	if m.Hang != nil {
		v.Hang = m.Hang
	}
	if m.Garbage != nil {
		v.Garbage = m.Garbage
	}
}
