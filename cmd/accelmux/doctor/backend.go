package doctor

import (
	"cmp"
	"strings"

	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/supervisor"
)

// backend stops the accelerators that no backend lists, and the devices of backends that do not run.
func backend(w *walk) Finding {
	if w.Report == nil {
		return w.unknown()
	}
	found, running := Finding{State: OK}, map[string]bool{}
	for i := range w.Report.Backends {
		b := &w.Report.Backends[i]
		if b.State == string(supervisor.Running) {
			running[b.Name] = true
			continue
		}
		why, do := notRunning(b)
		found = w.stopAll(func(d *Device) bool { return d.Backend == b.Name }, why, do)
	}
	for _, d := range w.devices {
		if d.listed == nil {
			why, do := w.unlisted(d)
			w.stop(d, why, do)
		}
	}
	if found.State == OK {
		found.Why = listed("running", running)
		for _, b := range w.Report.Backends {
			if b.Sandbox != nil && b.Sandbox.InForce != "full" {
				found.Why += "; sandbox of " + b.Name + ": " + b.Sandbox.InForce + " (`accelmux status -o yaml` has the reasons)"
			}
		}
	}
	return found
}

// notRunning returns why a backend does not run, and what to do.
func notRunning(b *status.Backend) (why, do string) {
	why, do = "the backend "+b.Name+" is "+b.State+": "+cmp.Or(b.Paused, b.LastError, "it has not reported yet"), "correct what it reports; its output is in the agent's log"
	if b.Paused != "" {
		do = "wait for the tool that set the label; if none is at work, set the label back"
	}
	return why, do
}

// unlisted returns why no backend lists an accelerator, and what to do.
func (w *walk) unlisted(d *Device) (why, do string) {
	for _, b := range w.Report.Backends {
		if !d.onBus.Covered(cmp.Or(b.ReportedName, b.Name)) {
			continue
		}
		if b.State != string(supervisor.Running) {
			return notRunning(&b)
		}
		why = "the backend " + b.Name + " runs, and does not list it"
		if text := messages(w.Report.Problems, func(p status.Problem) bool { return p.Backend == b.Name }); text != "" {
			why += ": " + text
		}
		return why, "see the backend's output in the agent's log, and try the vendor's own tool (nvidia-smi, amd-smi)"
	}
	ignore := ", or add " + d.onBus.Vendor + " to the profile's ignorePCI if it is not to be served"
	kind := d.onBus.Backend()
	if kind == "" {
		return "no manifest in the backend directory has this hardware", "describe it for the backend device (docs/device.md)" + ignore
	}
	return "the profile " + w.Report.Config.Profile + " has no backend " + kind, "add the backend " + kind + "; `accelmux discover` prints a configuration" + ignore
}

// messages joins the messages of problems.
func messages(problems []status.Problem, of func(status.Problem) bool) string {
	var all []string
	for _, p := range problems {
		if of(p) {
			all = append(all, p.Message)
		}
	}
	return strings.Join(all, "; ")
}

// inventory stops unhealthy devices.
func inventory(w *walk) Finding {
	if w.Report == nil {
		return w.unknown()
	}
	for _, d := range w.devices {
		if d.listed == nil || d.listed.Healthy {
			continue
		}
		if len(d.listed.Faults) == 0 {
			w.stop(d, "it is unhealthy", "`accelmux status` shows problems")
			continue
		}
		f, step := d.listed.Faults[0], w.step
		if f.Code == round.CodeNoCDIName {
			step = cdiStep
		}
		w.stopAt(step, d, "it is unhealthy, "+strings.TrimSuffix(f.Code+": "+f.Message, ": "), remedy(f))
	}
	return Finding{State: OK}
}

// remedy is what to do about a fault.
func remedy(f listing.Fault) string {
	switch f.Code {
	case round.CodeNoCDIName:
		return "rename the device in the backend's settings"
	case round.CodeCordoned:
		return "`kubectl accelmux uncordon NODE DEVICE` gives it to new pods again"
	}
	do := "check the device with the vendor's tool, and the kernel's log"
	switch f.Recovery {
	case "reset":
		do += "; it needs a reset, which is done when no container has it, unless recovery.reset of the backend is never"
	case "reboot":
		do += "; it needs a reboot of the node"
	case "replacement":
		do += "; it needs to be replaced"
	}
	return do
}
