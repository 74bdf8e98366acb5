package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// calls are the Prepare and Release calls that the mock backends with hooks, alpha and iota, have had, by
// their log.
type calls struct {
	read int64 // bytes of the log
	of   map[use]*callsOf
	// users are by device of iota, which is reset after use, the last holder since the last reset.
	users map[string]string
}

// use is a holder's use of a device: a container's, whose ID the agent makes up, or a claim's, by its UID.
type use struct{ holder, device string }

// callsOf are the calls of a use.
type callsOf struct {
	// open: it was prepared, and has to be released. ever: it was prepared at some time. released: the
	// last call was a release.
	open, ever, released bool
	// process had the last call.
	process int
	// lines are those of the log, for a report.
	lines []string
}

// callLog is the name of the log.
const callLog = "calls"

// readCalls reads what is new in the log. What must not be at any moment is an incident.
func (w *world) readCalls() error {
	file, err := os.Open(w.path(callLog))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, w.calls.read, math.MaxInt64-w.calls.read))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	w.calls.read += int64(len(text))
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		process, err := strconv.Atoi(words[len(words)-1])
		if err != nil || len(words) != 4 {
			return fmt.Errorf("%s has the line %q", callLog, line)
		}
		u := use{words[1], words[2]}
		if what := w.calls.addReset(words[0], u); what != "" {
			w.watch.incident(resetBetween, what)
		}
		if strings.HasPrefix(words[0], "reset") {
			continue // for no holder
		}
		if w.calls.of[u] == nil {
			w.calls.of[u] = &callsOf{}
		}
		c := w.calls.of[u]
		c.lines = append(c.lines, words[0]+" by "+words[3])
		if what := c.add(words[0] == "prepare", process, u, w.claims.known[u.holder]); what != "" {
			w.watch.incident(releasedOnce, what+": "+strings.Join(c.lines, ", "))
		}
	}
	return nil
}

// addReset adds a call for a device that is reset after use, and says what is wrong with it.
func (c *calls) addReset(call string, u use) string {
	if !strings.HasPrefix(u.device, "i-") {
		return ""
	}
	before := c.users[u.device]
	switch call {
	case "reset":
		delete(c.users, u.device)
	case "prepare":
		c.users[u.device] = u.holder
		if before != "" && before != u.holder {
			return fmt.Sprintf("%s was prepared for %s after %s, and not reset between them", u.device, u.holder, before)
		}
	}
	return ""
}

// add adds a call, and says what is wrong with it. The claim is nil for a container.
func (c *callsOf) add(prepare bool, process int, u use, claim *podClaim) string {
	before := *c
	c.open, c.ever, c.released, c.process = prepare, prepare || c.ever, !prepare, process
	who := u.device + " for the container " + u.holder
	if claim != nil {
		who = u.device + " for " + claim.Name + " (" + claim.UID + ")"
	}
	same := process == before.process
	switch {
	case claim != nil && claim.refused():
		return who + " was prepared or released, and must be refused for its parameters"
	case claim != nil && slices.Contains(claim.admin, u.device):
		return who + " was prepared or released, and only has admin access"
	case prepare && before.ever && !before.released && same && claim != nil:
		return who + " was prepared twice"
	case !prepare && before.ever && before.released && same && (claim == nil || !claim.failed):
		return who + " was released twice"
	case !prepare && !before.ever && claim != nil && claim.prepared && !claim.failed:
		return who + " was released, and never prepared"
	}
	return ""
}

// lookAtCalls adds what is prepared and released to an observation.
func (w *world) lookAtCalls(o *observation) {
	if err := w.readCalls(); err != nil {
		o.Incidents[releasedOnce] = err.Error()
		return
	}
	o.Incidents = w.watch.seen()
	alive := map[use]bool{} // and whether they must be prepared
	for _, p := range w.claims.all() {
		for _, id := range p.claim.devices {
			u := use{p.claim.UID, id}
			alive[u] = alive[u] || p.claim.prepared && !p.ending
		}
	}
	for u, prepared := range alive {
		if c := w.calls.of[u]; prepared && (c == nil || !c.open) {
			o.Released = append(o.Released, fmt.Sprintf("%s of %s (%s)", u.device, w.claims.known[u.holder].Name, u.holder))
		}
	}
	if o.Claims.Ended {
		for _, u := range w.unreleased(alive, o.Holds) {
			o.Unreleased = append(o.Unreleased, fmt.Sprintf("%s of %s", u.device, u.holder))
		}
	}
	slices.Sort(o.Released)
	slices.Sort(o.Unreleased)
}

// unreleased are the uses that were prepared and have ended, though their backends run. Of a claim whose
// file is damaged nobody may know the devices.
func (w *world) unreleased(alive map[use]bool, holds []hold) []use {
	var all []use
	for _, b := range []*backend{w.m.alpha, w.m.iota} {
		for _, d := range b.devices {
			held := slices.ContainsFunc(holders(holds, d.id), func(h hold) bool { return h.Resource != claimHold })
			for u, c := range w.calls.of {
				_, living := alive[u]
				claim := w.claims.known[u.holder]
				must := claim == nil && !held || claim != nil && !claim.damaged
				if u.device == d.id && c.open && !living && must && !b.down() && w.m.present(b, d) {
					all = append(all, u)
				}
			}
		}
	}
	return all
}

// forgetGone is for a node at rest: of a device that is gone nothing is released.
func (w *world) forgetGone(holds []hold) {
	for _, b := range []*backend{w.m.alpha, w.m.iota} {
		for _, d := range b.devices {
			if !b.down() && !w.m.present(b, d) && len(holders(holds, d.id)) == 0 {
				w.forgetUses(func(u use) bool { return u.device == d.id })
			}
		}
	}
}

// forgetBook is for agents that lost their book: they call containers by other IDs from now on, and know
// nothing of what has ended.
func (w *world) forgetBook() {
	alive := map[string]bool{}
	for _, p := range w.claims.all() {
		alive[p.claim.UID] = true
	}
	_ = w.readCalls() // the next observation reports the error
	maps.DeleteFunc(w.calls.users, func(_, holder string) bool { return !alive[holder] })
	w.forgetUses(func(u use) bool { return !alive[u.holder] })
}

// forgetUses is for uses that need not be released any more.
func (w *world) forgetUses(which func(use) bool) {
	for u, c := range w.calls.of {
		c.open = c.open && !which(u)
	}
}

func releasedRight(o *observation) string {
	switch {
	case o.Incidents[releasedOnce] != "":
		return o.Incidents[releasedOnce]
	case len(o.Released) > 0:
		return strings.Join(o.Released, ", ") + " is not prepared, or released, and pods have it"
	case len(o.Unreleased) > 0:
		return strings.Join(o.Unreleased, ", ") + " has ended, and is not released"
	}
	return ""
}
