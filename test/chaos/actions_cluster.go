package main

import (
	"context"

	"github.com/accelmux/accelmux/core/status"
)

// label gives the Node the label that chooses the lean profile, or takes it away. While
// the API server is away nobody hears of it.
func (w *world) label(ctx context.Context, _ int) error {
	if w.m.away {
		w.setLabel(!w.m.labelled)
		return nil
	}
	return w.choose(ctx, func() { w.setLabel(!w.m.labelled) })
}

func (w *world) setLabel(labelled bool) {
	labels := map[string]string{"kubernetes.io/hostname": nodeName}
	if labelled {
		labels[leanLabel] = ""
	}
	w.m.labelled = labelled
	w.server.SetLabels(labels)
}

// choose makes a change after which another profile may have to be in force, and waits
// for that. Nothing but delta may notice.
func (w *world) choose(ctx context.Context, change func()) error {
	if !w.configurable() {
		return errSkip
	}
	if err := w.calm(ctx); err != nil {
		return err
	}
	w.watch.spare(deltaName, draName)
	change()
	w.m.lean = w.m.labelled
	want := fullProfile
	if w.m.lean {
		want = leanProfile
	}
	return w.await(ctx, advertised, "profile "+want+" is not in force", func() bool {
		_, report := w.active(ctx)
		return report.Role == status.RoleActive && report.Config.Profile == want
	})
}

func (w *world) loseAPI(context.Context, int) error {
	if w.m.away {
		return errSkip
	}
	w.m.away = true
	w.server.Away(true)
	return nil
}

func (w *world) findAPI(ctx context.Context, _ int) error {
	if !w.m.away {
		return errSkip
	}
	back := func() {
		w.m.away = false
		w.server.Away(false)
	}
	if w.m.labelled == w.m.lean {
		back()
		return nil
	}
	return w.choose(ctx, back)
}

func (w *world) forgetWatches(context.Context, int) error {
	w.server.Forget()
	w.server.Cut()
	return nil
}
