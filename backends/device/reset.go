package device

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/backends/tool"
)

// Reset implements [engine.Driver].
func (s source) Reset(ctx context.Context, targets []engine.Target) (string, error) {
	var all []string
	for _, t := range targets {
		done, err := s.reset(ctx, t)
		if err != nil {
			return "", err
		}
		all = append(all, done)
	}
	return strings.Join(all, "; "), nil
}

func (s source) reset(ctx context.Context, t engine.Target) (string, error) {
	how, r := s.kind.Reset, readingIn(t.Device)
	if how == nil {
		return "", fmt.Errorf("%s cannot be reset: the kind %s has no reset", t.Device.ID, s.kind.Name)
	}
	if how.PCI {
		return s.resetPCI(ctx, t, r)
	}
	if how.Write != nil {
		var all []string
		for _, o := range r.objects {
			done, err := write(how.Write, o)
			if err != nil {
				return "", err
			}
			all = append(all, done)
		}
		return strings.Join(all, "; "), nil
	}
	var words []string
	for _, argument := range how.Program {
		word, err := argument.Text(r.objects[0])
		if err != nil {
			return "", err
		}
		words = append(words, word)
	}
	program := tool.Tool{Name: path.Base(words[0]), Paths: words[:1], Setting: "reset.program of the kind " + s.kind.Name}
	at, err := program.Find()
	if err != nil {
		return "", err
	}
	return program.Run(ctx, at, tool.Call{Args: words[1:]})
}

// resetPCI resets all functions of a device.
func (s source) resetPCI(ctx context.Context, t engine.Target, r reading) (string, error) {
	var functions []reset.Function
	seen := map[string]bool{}
	for _, o := range r.objects {
		f, err := o.Object.Function()
		if err != nil {
			return "", err
		}
		if o.Object.Hardware().USB {
			return "", fmt.Errorf("%s is on USB: a PCI reset would reset the controller with all that is behind it", t.Device.ID)
		}
		if !seen[f.Name] {
			functions = append(functions, reset.Function{Name: t.Device.ID, PCIBusID: f.Name})
		}
		seen[f.Name] = true
	}
	return reset.ByPCI(ctx, s.cfg.host, functions...)
}

// write writes a file, and returns what was done.
func write(w *description.CompiledWrite, o *expression.Scope) (string, error) {
	file, err := w.File.Text(o)
	if err != nil {
		return "", err
	}
	value, err := w.Value.Text(o)
	if err != nil {
		return "", err
	}
	of, below := fileOf(o, file)
	at, err := of.Path(below)
	if err != nil {
		return "", err
	}
	if err := sysfs.Write(at, value); err != nil {
		return "", fmt.Errorf("write %q: %w", value, err)
	}
	return fmt.Sprintf("%q was written to %s", value, at), nil
}
