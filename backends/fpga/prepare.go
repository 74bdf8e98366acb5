package fpga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// parameters are what parameters.schema.json describes.
type parameters struct {
	// Bitstream names a file; empty if the container asks for none.
	Bitstream string `json:"bitstream"`
}

// bitstreamParameter is its name, for errors.
const bitstreamParameter = "bitstream"

// Prepare implements [sdk.Preparer]. Devices of several cards are prepared at the same
// time.
func (b *Backend) Prepare(ctx context.Context, p sdk.Preparation) (map[string]*sdk.Edits, error) {
	ctx, cancel := sdk.InTime(ctx)
	defer cancel()
	var params parameters
	if err := json.Unmarshal(p.Parameters, &params); err != nil {
		return nil, fmt.Errorf("%w: %w", sdk.ErrParameters, err)
	}
	cfg := b.config()
	places, err := b.places(ctx, cfg, p.IDs())
	if err != nil {
		return nil, err
	}
	if len(places) > 0 && params.Bitstream != "" {
		return nil, fmt.Errorf("%w: a device of a function accepts no parameter %s: its own bitstream is programmed", sdk.ErrParameters, bitstreamParameter)
	}
	edits, err := b.makeAll(ctx, cfg, p, places)
	if err != nil {
		return nil, err
	}
	p.Devices = slices.DeleteFunc(slices.Clone(p.Devices), func(d sdk.HeldDevice) bool { _, ok := places[d.ID]; return ok })
	if len(p.Devices) == 0 {
		return edits, nil
	}
	t, err := b.Held(ctx, p)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(t.Devices))
	var all sync.WaitGroup
	for i, device := range t.Devices {
		all.Go(func() {
			one := preparation{
				b: b, cfg: cfg, target: targetOf(device), resource: p.Resource,
				file: params.Bitstream, shared: device.Shared,
			}
			if err := one.run(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", device.Device.ID, err)
			}
		})
	}
	all.Wait()
	return edits, errors.Join(errs...)
}

func (p *preparation) run(ctx context.Context) error {
	if p.file != "" {
		return p.load(ctx)
	}
	if err := p.renew(ctx); err != nil {
		return err
	}
	seen, err := p.scan(ctx, false)
	if err != nil {
		return err
	}
	return p.usable(seen)
}

// usable returns an error if a container that asks for no file cannot use a region as it is. A
// container with a whole card, or with the nodes that manage it, programs it itself.
func (p *preparation) usable(is target) error {
	if is.region.Kind == driver.Platform || p.cfg.managed(p.card, is.region) {
		return nil
	}
	if is.put != nil && is.put.failed != nil {
		return fmt.Errorf("the content of %s is not known since programming %s failed, and the container asks for no file: "+
			"give the resource %s the parameter %s, or program it from the host and restart the agent: %w",
			p.Device.Name, is.put.name, p.resource, bitstreamParameter, is.put.failed)
	}
	if is.region.State == driver.Unloaded && is.region.Kind == driver.Port {
		return fmt.Errorf("no accelerator function is loaded in %s, and the container asks for no file: "+
			"give the resource %s the parameter %s, or program the region before", p.Device.Name, p.resource, bitstreamParameter)
	}
	return nil
}

// scan has the region scanned and returns it. It is an error unless the region is healthy.
func (p *preparation) scan(ctx context.Context, back bool) (target, error) {
	seen, err := p.b.Scan(ctx, back, p.region.ID)
	if err == nil {
		err = seen.Healthy(p.region.ID, false)
	}
	return targetOf(seen.Targets[p.region.ID]), err
}

// renew resets the region if settings want that and no other container has it.
func (p *preparation) renew(ctx context.Context) error {
	if !p.cfg.Prepare.Reset || p.shared {
		return nil
	}
	if len(p.Group) > 0 {
		return fmt.Errorf("%s is not reset before the start, since that would also reset what is on its board and may be in use: %s: "+
			"set prepare.reset to false on this node", p.Device.Name, strings.Join(p.Group, ", "))
	}
	done, _, err := p.b.ResetTargets(ctx, []engine.Target{p.Target})
	if err != nil {
		return fmt.Errorf("reset before the start: %w", err)
	}
	p.b.log.Debug("a region was reset before a start", "device", p.region.ID, "how", done)
	return nil
}

// load has the file in the region before the container starts.
//
//	shared     ─┬─ has the file ──► nothing is done
//	            └─ has another one ► refused, nothing is touched
//	not shared ─┬─ has the file ──► nothing is done
//	            └─ has another one ► programmed, and scanned
func (p *preparation) load(ctx context.Context) error {
	if err := p.allowed(); err != nil {
		return err
	}
	file, err := bitstream.Find(p.cfg.Bitstreams, p.file)
	if err != nil {
		return err
	}
	done := sync.OnceFunc(func() { _ = file.Close() }) // only read
	c := claim{name: p.file, version: file.Version()}
	if p.joined, err = p.claim(ctx, c); err != nil {
		done()
		return err
	}
	err = p.renew(ctx)
	var leave func()
	if err == nil {
		leave, err = p.b.Enter(ctx, p.Board...)
	}
	if err != nil {
		done()
		p.unclaim(ctx, c)
		return err
	}
	over := sync.OnceFunc(func() {
		leave()
		done()
		p.unclaim(ctx, c)
	})
	needed, err := p.needed(ctx, file)
	if err != nil || !needed {
		over()
		return err
	}
	return p.program(ctx, file, c.version, over)
}

// allowed returns an error if nothing is programmed for containers.
func (p *preparation) allowed() error {
	if p.cfg.Bitstreams == "" {
		return fmt.Errorf("the container asks for the bitstream %s, and nothing is programmed on this node: "+
			"set the directory of bitstreams (bitstreams) in the settings of the backend", p.file)
	}
	return nil
}

// needed reports whether the region has to be programmed; it is an error if it has to
// and cannot be. The caller has entered the card, so that nothing else changes it.
func (p *preparation) needed(ctx context.Context, file *bitstream.File) (bool, error) {
	seen, err := p.scan(ctx, false)
	if err != nil {
		return false, err
	}
	p.target = seen
	if !p.region.Programmable {
		// It can be used without being programmed, as in a virtual machine or while XRT's
		// tool is missing.
		if p.holds(file) {
			return false, nil
		}
		return false, fmt.Errorf("the container asks for the bitstream %s, and %s cannot be programmed from here: "+
			"ask for a device with the attribute programmable", p.file, p.Device.Name)
	}
	if err := p.driver.Fits(p.card, p.region, file); err != nil {
		return false, err
	}
	if p.holds(file) {
		return false, nil
	}
	if p.shared {
		return false, fmt.Errorf("%s was not programmed into %s: another container uses it with %s; "+
			"containers that share a device ask for the same file", file.Path, p.Device.Name, p.loaded())
	}
	return true, nil
}

// holds reports whether the region has a file. Of a file that this process put into it the
// version counts, so that a function that was built again is another one; otherwise only IDs
// are known. A region that does not report its content is programmed for each container
// that does not share it.
func (p *preparation) holds(file *bitstream.File) bool {
	switch {
	case p.put == nil:
		return p.driver.Holds(p.region, file)
	case p.put.failed != nil:
		return false
	}
	return p.put.version == file.Version() && (p.region.State != driver.Unreported || p.shared || p.joined)
}

// loaded names the content of the region, for messages.
func (t target) loaded() string {
	switch {
	case t.put != nil && t.put.failed != nil:
		return "what is left since programming " + t.put.name + " failed"
	case t.put != nil:
		return t.put.name
	case t.region.Function != "":
		return "the function " + t.region.Function
	}
	return "an unknown content"
}

// program programs the region, and checks that it has the file then. The caller has entered
// the card; over is called when the kernel is done.
func (p *preparation) program(ctx context.Context, file *bitstream.File, version string, over func()) error {
	began := time.Now()
	err := p.b.Run(ctx, []engine.Target{p.Target}, over, engine.Operation{
		What: fmt.Sprintf("%s is being programmed into %s", file.Path, p.Device.Name),
		Do:   func(ctx context.Context) error { return p.driver.Program(ctx, p.card, p.region, file) },
		Ended: func(d *engine.KnownDevice, err error) {
			if !errors.As(err, &driver.UntouchedError{}) {
				m := memoryOf(d)
				m.program = &program{name: p.file, version: version, failed: err}
				d.Memory = m
			}
		},
	})
	if err != nil {
		return err
	}
	is, err := p.scan(ctx, true)
	if err != nil {
		return fmt.Errorf("%s was programmed into %s, then: %w", file.Path, p.Device.Name, err)
	}
	if is.region.State == driver.Unloaded || is.put == nil || is.put.version != version {
		return fmt.Errorf("%s was programmed into %s, which has %s now: see the kernel's log", file.Path, p.Device.Name, is.loaded())
	}
	p.b.log.Info("a region was programmed", "device", p.region.ID, "resource", p.resource, "file", file.Path,
		"function", is.region.Function, "took", time.Since(began).Round(time.Millisecond).String())
	return nil
}
