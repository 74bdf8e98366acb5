package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/sandbox"
)

// errOutgrown is the reason for the end of a process whose settings need more than it was started with.
var errOutgrown = errors.New("replaced by a process with the rights that its settings need")

// ProcessNeeds returns what the process itself needs.
func ProcessNeeds(n inventory.Needs) sandbox.Needs {
	return sandbox.Needs{Read: n.ReadPaths, List: n.ListPaths, Write: n.WritePaths, Open: n.OpenDevices, Nodes: n.Edits.Devices, Capabilities: n.Capabilities, SystemCalls: n.SystemCalls, Interfaces: n.Edits.NetDevices}
}

// learn finds what the process gets. If the needs of its program are not known, the program is first started
// only for its description, with what the configuration gives whatever is declared.
func (i *instance) learn(p *program) error {
	known := i.backend.sup.known
	sum, err := known.sum(p)
	if err != nil {
		return fail(unavailable, "%w", err)
	}
	i.sum = sum
	if i.spec.Sandbox.Mode == sandbox.Off {
		return nil
	}
	needs, ok := known.of(sum, i.spec.Settings)
	if !ok {
		if needs, err = i.describeFirst(p); err != nil {
			return err
		}
		known.put(sum, nil, needs)
	}
	i.given, _ = i.spec.Sandbox.Give(needs)
	i.files = i.given.Existing(i.paths())
	return nil
}

// describeFirst starts a process for its description, ends it, and returns the needs that it declares.
func (i *instance) describeFirst(p *program) (sandbox.Needs, error) {
	first := &instance{backend: i.backend, timing: i.timing, spec: i.spec, log: i.log, sum: i.sum}
	first.given, _ = i.spec.Sandbox.Give(sandbox.Needs{})
	first.ctx, first.cancel = context.WithCancelCause(i.ctx)
	_, err := first.introduce(p)
	first.cancel(errReplaced)
	first.conclude()
	if i.ctx.Err() != nil {
		return sandbox.Needs{}, context.Cause(i.ctx)
	}
	return ProcessNeeds(first.desc.Needs), err
}

// outgrows reports whether the process must be replaced, because its settings need more than it was started
// with, and the configuration gives that. The next process gets it. A process that was started for these
// settings already continues with what it has.
func (i *instance) outgrows(settings json.RawMessage, more inventory.Needs) bool {
	if i.spec.Sandbox.Mode == sandbox.Off {
		return false
	}
	needs := ProcessNeeds(i.desc.Needs.Join(i.needs).Join(more))
	given, missing := i.spec.Sandbox.Give(needs)
	i.setMissing(missing)
	if i.given.Covers(given) {
		return false
	}
	if bytes.Equal(i.grown, settings) {
		i.log.Warn("the backend needs more again, with the same settings, and continues without it", "missing", given.Without(i.given).YAML())
		i.setMissing(given.Without(i.given).Join(missing))
		return false
	}
	i.backend.sup.known.put(i.sum, settings, needs)
	return true
}

// watchFiles posts an event for files that the process needs and that appear while it runs, such as the nodes of a
// device that is plugged in or of a driver that is loaded: it cannot open them.
func (i *instance) watchFiles() {
	if i.spec.Sandbox.Mode == sandbox.Off {
		return
	}
	var before []string
	for backoff.Sleep(i.ctx, i.timing.Files) {
		appeared := i.given.Existing(i.paths()).Beyond(i.files)
		if len(appeared) > 0 && slices.Equal(appeared, before) { // so udev has had the time to set their modes
			i.backend.post(appearedEvent{i, appeared})
		}
		before = appeared
	}
}

// rights returns the report of a running process's sandbox, the needs that it was given, and those that it was
// not.
func (i *instance) rights() (report sandbox.Report, given, missing sandbox.Needs) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.process.report, i.given, i.missing
}

// setMissing stores the needs that the process was not given. Device nodes that containers do not get are reported
// elsewhere.
func (i *instance) setMissing(missing sandbox.Needs) {
	i.mu.Lock()
	defer i.mu.Unlock()
	missing.Nodes = nil
	i.missing = missing
}
