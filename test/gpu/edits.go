//go:build cgo

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/sdk"
)

// edits makes what containers get with each GPU and MIG device, and looks whether
// the nodes, files and hooks in it are there.
func (c *comparison) edits(ours *driver.Snapshot, o options) {
	maker, err := edits.New("", o.edits, o.host, slog.New(slog.DiscardHandler))
	if err != nil {
		c.differences = append(c.differences, fmt.Errorf("container edits: %w", err))
		return
	}
	set := maker.Make(ours)
	for _, problem := range set.Problems {
		c.tell("container edits: %s", problem)
	}
	var devices []string
	for _, g := range ours.GPUs {
		devices = append(devices, g.UUID)
		for _, i := range g.Instances {
			devices = append(devices, i.UUID)
		}
	}
	found := &inventory{options: o, seen: map[string]error{}}
	for _, uuid := range devices {
		c.compared++
		e, err := set.Of(uuid)
		if err == nil {
			err = found.all(e)
		}
		if err != nil {
			c.differences = append(c.differences, fmt.Errorf("container edits of %s: %w", uuid, err))
		}
	}
	c.compared += len(found.seen)
	c.tell("container edits: %d device nodes, %d mounts, %d hooks, of the driver root %s", found.nodes, found.mounts, found.hooks, o.edits.DriverRoot)
	if found.hookless != "" {
		c.leave("hooks", found.hookless)
	}
}

// inventory looks at each path once.
type inventory struct {
	options
	seen                 map[string]error
	nodes, mounts, hooks int
	hookless             string
}

// all is what is not there of all that is in some edits.
func (i *inventory) all(e *sdk.Edits) error {
	var errs []error
	for _, d := range e.GetDeviceNodes() {
		path := d.GetHostPath()
		if path == "" {
			path = d.GetPath()
		}
		errs = append(errs, i.look(path, &i.nodes, func() error { return i.node(path) }))
	}
	for _, m := range e.GetMounts() {
		errs = append(errs, i.look(m.GetHostPath(), &i.mounts, func() error {
			_, err := os.Stat(m.GetHostPath())
			return err
		}))
	}
	for _, h := range e.GetHooks() {
		errs = append(errs, i.look(h.GetPath()+" "+strings.Join(h.GetArgs(), " "), &i.hooks, func() error { return i.hook(h.GetPath()) }))
	}
	return errors.Join(errs...)
}

func (i *inventory) look(what string, count *int, there func() error) error {
	err, known := i.seen[what]
	if !known {
		*count++
		err = there()
		i.seen[what] = err
	}
	return err
}

// node looks at a node, whose path is the host's, where the host's /dev is.
func (i *inventory) node(path string) error {
	here := path
	if rest, ok := strings.CutPrefix(path, "/dev/"); ok {
		here = filepath.Join(i.host.Devfs, rest)
	}
	info, err := os.Stat(here)
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeCharDevice == 0 {
		return fmt.Errorf("%s is no device node", here)
	}
	return nil
}

// hook looks at the program of a hook. It is not the driver's, but of the container
// toolkit, without which a machine can have GPUs that work.
func (i *inventory) hook(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		i.hookless = fmt.Sprintf("%s is not there: install nvidia-container-toolkit, or give its place by -hook; no container could start with these edits", path)
		return nil
	}
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s is no program", path)
	}
	return err
}
