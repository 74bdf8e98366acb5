package page

import (
	"context"
	"fmt"
	"html/template"
	"time"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

const (
	// maxProblems bounds the problems, and pageRows the devices, that are shown at a time.
	maxProblems = 50
	pageRows    = 100
)

// view is the page's content, as the template shows it.
type view struct {
	Style template.CSS
	Head  head
	// Counts are the numbers at the top.
	Counts   []count
	Problems []problem
	// MoreProblems is how many are not in Problems.
	MoreProblems int
	Device       *detail
	Devices      table
	Pictures     []picture
	Report       status.Report
	Changes      []change
	// Named: the names of pods are shown.
	Named bool
}

// head is what the page is of.
type head struct {
	Node, Version, Role, Profile, Up string
	// State is healthy, unhealthy or potential, as that of a device, and Text what it means for the node.
	State, Text string
	// Now is when the page was made.
	Now time.Time
	// Refresh is after how many seconds the page is reloaded, 0 for never, and Switch the link that
	// changes that.
	Refresh int
	Switch  string
}

// count is a number of things, and what is to be known of some of them. IsBad: something is wrong.
type count struct {
	Number, What, Note string
	IsBad              bool
}

// problem is a problem, the link to its device, and who has that; "" if it is free.
type problem struct{ Text, Link, HeldBy string }

// change is a line of the history.
type change struct {
	At                 time.Time
	Ago, Device, Link  string
	State, What, Cause string
}

// view computes the page.
func (p *Page) view(ctx context.Context, q question, now time.Time) view {
	report, devices, measured := p.source.Report(), p.source.Devices(), p.source.Telemetry(ctx)
	p.samples.add(measured)
	l := newLister(q, devices, measured, &p.samples)
	v := view{
		Style: template.CSS(style), Head: newHead(q, report, now), Counts: counts(report, devices),
		Device: l.detail(now), Devices: l.table(), Pictures: p.pictures(report), Report: l.published(report), Named: q.named,
	}
	for i, all := 0, report.Problems; i < len(all); i++ {
		if i == maxProblems {
			v.MoreProblems = len(all) - i
			break
		}
		key := inventory.Key{Backend: all[i].Backend, ID: all[i].Device}
		v.Problems = append(v.Problems, problem{Text: q.message(all[i].String()), Link: l.link(key), HeldBy: l.heldBy(key)})
	}
	for _, c := range p.changes() {
		v.Changes = append(v.Changes, l.change(c, now))
		if v.Device != nil && c.Device.Backend+"/"+c.Device.ID == q.device {
			v.Device.Changes = append(v.Device.Changes, l.change(c, now))
		}
	}
	return v
}

func newHead(q question, r status.Report, now time.Time) head {
	text, ready := r.Summary()
	h := head{
		Node: r.Node, Version: r.Version, Role: string(r.Role), Profile: "profile " + r.Config.Profile, Up: age(r.StartedAt, now),
		State: "healthy", Text: q.message(text), Now: now,
	}
	if !ready {
		h.State = "unhealthy"
	}
	if r.Config.Profile == "" {
		h.Profile, h.State = "no profile in force", "potential"
	}
	other := q
	other.refresh = !q.refresh
	h.Switch = other.link("top")
	if q.refresh {
		h.Refresh = int(sampleEvery.Seconds())
	}
	return h
}

// counts returns the numbers at the top.
func counts(r status.Report, devices []listing.Device) []count {
	unhealthy, held := 0, 0
	for _, d := range devices {
		if !d.Healthy {
			unhealthy++
		}
		if len(d.Holders) > 0 {
			held++
		}
	}
	running := 0
	for _, b := range r.Backends {
		if b.State == "running" {
			running++
		}
	}
	return []count{
		{fmt.Sprint(len(r.Problems)), plural(len(r.Problems), "problem"), "", len(r.Problems) > 0},
		{fmt.Sprint(len(devices)), plural(len(devices), "device"), fmt.Sprintf("%d unhealthy", unhealthy), unhealthy > 0},
		{fmt.Sprint(held), plural(held, "device") + " in use", fmt.Sprintf("%d free", len(devices)-held), false},
		{fmt.Sprint(len(r.Backends)), plural(len(r.Backends), "backend"), fmt.Sprintf("%d running", running), running < len(r.Backends)},
	}
}

// change returns a line of the history.
func (l *lister) change(c events.Change, now time.Time) change {
	line := change{
		At: c.At, Ago: age(c.At, now), Device: c.Device.Backend + "/" + c.Device.ID, Link: l.link(c.Device), What: c.What, State: "healthy",
	}
	if c.Others > 0 {
		line.Device += fmt.Sprintf(" and %d more", c.Others)
	}
	switch c.What {
	case "unhealthy":
		line.State, line.Cause = "unhealthy", l.q.message(c.Code+": "+c.Message+c.Recovery.Need())
	case "removed":
		line.State = "potential"
	}
	return line
}

// published returns the report with messages as the reader may see them.
func (l *lister) published(r status.Report) status.Report {
	backends := make([]status.Backend, len(r.Backends))
	for i, b := range r.Backends {
		b.LastError = l.q.message(b.LastError)
		backends[i] = b
	}
	r.Backends = backends
	return r
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// age returns how long ago something was, in the largest unit and the next: "3m12s", "5d2h"; "" for the zero
// time.
func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := max(now.Sub(t), 0)
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.Truncate(time.Second).String()
}
