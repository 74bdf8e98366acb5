package fpga

import (
	"fmt"
	"time"
)

// directory watches over the directory of bitstreams, beside the loop, for it may be on
// a file system that hangs. Without it no container that asks for a file starts, which is
// told before the first one does.
type directory struct {
	// path is what was looked at, empty if nothing was.
	path string
	// since is since when it is being looked at, zero if it is not; due is when it is
	// looked at again.
	since, due time.Time
	hung       bool
	// wrong is what is wrong with it; nil if nothing is.
	wrong error
}

// inspect begins to look at the directory, if it is time.
func (l *loop) inspect(now time.Time) {
	d := &l.directory
	if path := l.cfg.Bitstreams; d.path != path {
		l.changed = l.changed || d.wrong != nil || d.hung
		*d = directory{path: path, due: now}
	}
	switch {
	case d.path == "":
		return
	case !d.since.IsZero():
		if !d.hung && now.Sub(d.since) >= hangs {
			d.hung, l.changed = true, true
		}
		return
	case now.Before(d.due):
		return
	}
	d.since, d.due = now, now.Add(l.cfg.interval)
	path, check := d.path, l.backend.seams.directory
	go func() {
		wrong := check(path)
		l.post(func() { l.inspected(path, now, wrong) })
	}()
}

// inspected takes in how the directory is.
func (l *loop) inspected(path string, began time.Time, wrong error) {
	d := &l.directory
	if d.path != path || !d.since.Equal(began) {
		return // by other settings
	}
	l.changed = l.changed || d.hung || words(d.wrong) != words(wrong)
	d.since, d.hung, d.wrong = time.Time{}, false, wrong
}

// turns is when something is to be done about it; zero for never.
func (d *directory) turns() time.Time {
	switch {
	case d.path == "" || d.hung:
		return time.Time{}
	case d.since.IsZero():
		return d.due
	}
	return d.since.Add(hangs)
}

// problems are what an operator must know of it.
func (d *directory) problems() []string {
	const then = "no container that asks for a file starts until that is over"
	switch {
	case d.hung:
		return []string{fmt.Sprintf("opening the directory of bitstreams, %s, has not come to an end since %s: its file system hangs; %s",
			d.path, d.since.UTC().Format(time.RFC3339), then)}
	case d.wrong != nil:
		return []string{fmt.Sprintf("%v: make it on the node, and mount it into the agent at the same path; %s", d.wrong, then)}
	}
	return nil
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
