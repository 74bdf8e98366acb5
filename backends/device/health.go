package device

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sdk"
)

// kernels returns the fault that the kernel's files show of an object of any kind, whatever its
// description has; nil if there is none.
func (s source) kernels(o *match.Object, device []*expression.Scope) *sdk.Health {
	if len(s.kind.NetDevices) > 0 {
		return returned(o)
	}
	if o.Hardware().USB {
		return unauthorized(o)
	}
	return s.groupHealth(o, device)
}

// polls reports whether a poll may find a fault of an object. Which driver a function has changes with an event, and so with a scan.
func (s source) polls(o *match.Object) bool {
	if len(s.kind.Health)+len(s.kind.NetDevices) > 0 || o.Hardware().USB {
		return true
	}
	f, _, err := s.vfioFunction(o)
	return f != nil || err != nil
}

// unauthorized returns the fault of a USB device that the node may not use, as by USBGuard: it is in sysfs,
// with its device node, and without a configuration (Documentation/usb/authorization.rst).
func unauthorized(o *match.Object) *sdk.Health {
	port, err := o.Port()
	if err != nil {
		return nil
	}
	if text, err := port.Text("authorized"); err != nil || text != "0" {
		return nil // a file that is absent or unreadable is no evidence
	}
	return sdk.Fault("not-authorized", sdk.RecoverySelf, fmt.Sprintf(
		"the USB device %s is not authorized, so nothing can use it: allow it in the rules of USBGuard, or write 1 to /sys/bus/usb/devices/%[1]s/authorized", port.Name))
}

// watched is the value of a file that is judged by how it changes.
type watched struct {
	// index is that of the description's health, dir the object's directory.
	index int
	dir   string
	file  string
	// number is a counter, text a heartbeat.
	number uint64
	text   string
	// message is the description's; empty if it has none.
	message string
}

func (v watched) isSameFile(other watched) bool { return v.index == other.index && v.dir == other.dir }

// fault returns a fault of a description. Its message begins with that of the description; an
// expression is only in one that would be empty.
func fault(h *description.CompiledHealth, message, found string) *sdk.Health {
	if message == "" {
		message = found
	} else if h.When == nil {
		message += " (" + found + ")"
	}
	f := sdk.Fault(h.Fault, h.Recovery, message)
	f.Reach = h.Reach
	return f
}

// judge returns what a description's health is for an object now: a fault, unknown, or nil; and
// the value of a file that is judged by how it changes.
func judge(h *description.CompiledHealth, scope *expression.Scope) (*sdk.Health, *watched) {
	unknown := func(err error) (*sdk.Health, *watched) {
		return sdk.Unknown(fmt.Sprintf("whether it has the fault %s cannot be read: %v", h.Fault, err)), nil
	}
	if h.When != nil {
		is, err := h.When.True(scope)
		if err != nil {
			return unknown(err)
		}
		if !is {
			return nil, nil
		}
		return fault(h, message(h, scope), h.Health.When), nil
	}
	if h.File == nil {
		return nil, nil // it comes with an event
	}
	file, err := h.File.Text(scope)
	if err != nil {
		return unknown(err)
	}
	of, below := fileOf(scope, file)
	switch {
	case h.Present != "" || h.Absent != "":
		is, err := of.Has(below)
		switch {
		case err != nil:
			return unknown(err)
		case is && h.Present != "":
			return fault(h, message(h, scope), "there is a file "+file), nil
		case !is && h.Absent != "":
			return fault(h, message(h, scope), "there is no file "+file), nil
		}
		return nil, nil
	case h.Grows != "":
		n, err := of.Uint(below)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return unknown(err)
		}
		return nil, &watched{file: file, number: n, message: message(h, scope)}
	}
	text, err := of.Text(below)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return unknown(err)
	}
	return nil, &watched{file: file, text: text, message: message(h, scope)}
}

// message returns the description's message; what cannot be read is no reason to have no fault.
func message(h *description.CompiledHealth, scope *expression.Scope) string {
	if h.Message == nil {
		return ""
	}
	text, err := h.Message.Text(scope)
	if err != nil {
		return h.Health.Message
	}
	return text
}

// fileOf returns the object that a file is below, and the path there: that of the scope, or all
// of sysfs.
func fileOf(scope *expression.Scope, file string) (*match.Object, string) {
	if below, ok := strings.CutPrefix(file, "/sys/"); ok {
		return scope.Sys, below
	}
	return scope.Object, file
}

// history is what is remembered of a watched file.
type history struct {
	value watched
	// since is when a heartbeat changed last.
	since time.Time
	// grown: the counter grew from the number.
	grown bool
	from  uint64
}

// follow returns the history of a file with a new value. A counter that became less was reset.
func (f history) follow(h *description.CompiledHealth, now watched, at time.Time) history {
	next := history{value: now, since: f.since, grown: f.grown && h.Recovery != sdk.RecoverySelf, from: f.from}
	if now.text != f.value.text {
		next.since = at
	}
	if now.number > f.value.number {
		if !next.grown {
			next.from = f.value.number
		}
		next.grown = true
	}
	return next
}

// health returns the fault that a history shows; nil if there is none.
func (f history) health(h *description.CompiledHealth, at time.Time) *sdk.Health {
	switch {
	case h.Grows != "" && f.grown:
		return fault(h, f.value.message, fmt.Sprintf("%s has grown from %d to %d", f.value.file, f.from, f.value.number))
	case h.Heartbeat != "" && at.Sub(f.since) >= h.Within:
		return fault(h, f.value.message, fmt.Sprintf("%s has not changed since %s", f.value.file, f.since.UTC().Format(time.RFC3339)))
	}
	return nil
}
