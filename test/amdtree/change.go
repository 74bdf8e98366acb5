package amdtree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/test/sysroot"
)

// SwitchPartition sets the partition modes of a card; an empty one stays. KFD's
// nodes of the card go, the files say the new modes, and the nodes come back at the
// end of the list, so that those of other cards have other numbers. DRM devices
// stay: the driver makes all of them when it is loaded.
func (t *Tree) SwitchPartition(gpu int, compute, memory string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, i, err := t.driven(gpu)
	if err != nil {
		return err
	}
	if compute != "" && !slices.Contains(l.Model.Compute, compute) {
		return fmt.Errorf("GPU %s has no compute mode %q", l.Address, compute)
	}
	if memory != "" && !slices.Contains(l.Model.Memory, memory) {
		return fmt.Errorf("GPU %s has no memory mode %q", l.Address, memory)
	}
	t.machine.captured = nil
	t.loaded = slices.Delete(t.loaded, i, i+1)
	if err := t.publish(true); err != nil {
		return err
	}
	t.Halfway("no nodes of the card")
	set := &t.machine.GPUs[gpu]
	if compute != "" {
		set.Compute, l.Compute = compute, compute
	}
	if memory != "" {
		set.Memory, l.Memory = memory, memory
	}
	if err := errors.Join(t.replace(l.path()+"/current_compute_partition", l.Compute+"\n"),
		t.replace(l.path()+"/current_memory_partition", l.Memory+"\n")); err != nil {
		return err
	}
	t.Halfway("new modes")
	t.loaded = append(t.loaded, l)
	return t.publish(false)
}

// FollowModes does what the driver does when a program writes a compute mode to current_compute_partition, until ctx
// ends. A kernel has done it when the write returns, here it is done a moment later.
func (t *Tree) FollowModes(ctx context.Context) error {
	for {
		for gpu := range t.machine.GPUs {
			if mode := t.written(gpu); mode != "" {
				if err := t.SwitchPartition(gpu, mode, ""); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// written returns the compute mode that a program has written to the file of a card; empty if none has.
func (t *Tree) written(gpu int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, _, err := t.driven(gpu)
	if err != nil {
		return ""
	}
	text, err := os.ReadFile(path.Join(t.Root, l.path(), "current_compute_partition"))
	if mode := strings.TrimSpace(string(text)); err == nil && mode != l.Compute {
		return mode
	}
	return ""
}

// Unplug takes a card away: first its DRM devices, then its KFD nodes, then the rest.
func (t *Tree) Unplug(gpu int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.release(gpu); err != nil {
		return err
	}
	w := newWriter(t.Root)
	g := t.machine.GPUs[gpu]
	w.Remove(devices + g.Address.String())
	w.Remove(g.path())
	return w.Err
}

// Plug puts a card back that was unplugged.
func (t *Tree) Plug(gpu int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gpu < 0 || gpu >= len(t.machine.GPUs) {
		return fmt.Errorf("there is no GPU %d", gpu)
	}
	g := t.machine.GPUs[gpu]
	w := newWriter(t.Root)
	if _, err := os.Stat(w.Path(g.path())); err == nil {
		return fmt.Errorf("GPU %s is plugged in", g.Address)
	}
	t.machine.captured = nil
	w.function(t.machine, g)
	if w.Err != nil {
		return w.Err
	}
	t.Halfway("no driver")
	if err := t.load(gpu); err != nil {
		return err
	}
	t.Halfway("no nodes of the card")
	return t.publish(false)
}

// ReloadDriver unloads the driver and loads it again. It finds the cards in the order
// given, as indices of Machine.GPUs: minors, platform devices and nodes are numbered
// anew. Cards that are not in the order are left without a driver.
func (t *Tree) ReloadDriver(order ...int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for gpu := range t.machine.GPUs {
		if _, _, err := t.driven(gpu); err != nil {
			continue
		}
		if err := t.release(gpu); err != nil {
			return err
		}
	}
	t.Halfway("no driver")
	for _, gpu := range order {
		if _, _, err := t.driven(gpu); err == nil {
			return fmt.Errorf("GPU %d is in the order twice", gpu)
		}
		if err := t.load(gpu); err != nil {
			return err
		}
		t.Halfway("no nodes of the card")
		if err := t.publish(false); err != nil {
			return err
		}
	}
	return nil
}

// release takes the driver from a card.
func (t *Tree) release(gpu int) error {
	l, i, err := t.driven(gpu)
	if err != nil {
		return err
	}
	t.machine.captured = nil
	if err := t.hide(l); err != nil {
		return err
	}
	t.Halfway("no DRM devices")
	t.loaded = slices.Delete(t.loaded, i, i+1)
	if err := t.publish(true); err != nil {
		return err
	}
	t.Halfway("no nodes of the card")
	w := newWriter(t.Root)
	w.unbind(l)
	return w.Err
}

// driven is a card that has the driver, and its place.
func (t *Tree) driven(gpu int) (*loaded, int, error) {
	if gpu < 0 || gpu >= len(t.machine.GPUs) {
		return nil, 0, fmt.Errorf("there is no GPU %d", gpu)
	}
	at := t.machine.GPUs[gpu].Address
	i := slices.IndexFunc(t.loaded, func(l *loaded) bool { return l.Address == at })
	if i < 0 {
		return nil, 0, fmt.Errorf("GPU %s has no driver", at)
	}
	return t.loaded[i], i, nil
}

// RaiseCounter adds to an error counter of a card: "umc.ue" and "gfx.ce" are the
// numbers of ras/<block>_err_count, another name is a file with just a number, such
// as pcie_replay_count or xgmi_error.
func (t *Tree) RaiseCounter(gpu int, counter string, by uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, _, err := t.driven(gpu)
	if err != nil {
		return err
	}
	name, prefix := counter, ""
	if block, severity, ok := strings.Cut(counter, "."); ok {
		name, prefix = "ras/"+block+"_err_count", severity+": "
	}
	name = path.Join(l.path(), name)
	b, err := os.ReadFile(path.Join(t.Root, name))
	if err != nil {
		return err
	}
	lines, found := strings.Split(string(b), "\n"), false
	for i, line := range lines {
		if number, ok := strings.CutPrefix(line, prefix); ok && number != "" && !found {
			n, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				return err
			}
			lines[i], found = prefix+strconv.FormatUint(n+by, 10), true
		}
	}
	if !found {
		return fmt.Errorf("%s has no counter %q", name, counter)
	}
	return t.replace(name, strings.Join(lines, "\n"))
}

// SetFile writes a file of the tree, such as
// "sys/bus/pci/devices/0000:05:00.0/gpu_metrics", in one step.
func (t *Tree) SetFile(name, content string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	real, err := sysroot.Real(t.Root, name)
	if err != nil {
		return err
	}
	return t.replace(real, content)
}
