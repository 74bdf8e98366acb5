package doctor

import (
	"cmp"
	"slices"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin"
)

// selected stops the devices that no resource has, except those whose partitions a resource has, and
// those that were made for a claim.
func selected(w *walk) Finding {
	if w.Report == nil {
		return w.unknown()
	}
	for _, d := range w.devices {
		if d.listed == nil || d.Resource != "" || d.listed.MadeFor != "" {
			continue
		}
		isParent := slices.ContainsFunc(w.devices, func(p *Device) bool {
			return p.listed != nil && p.Backend == d.Backend && p.listed.Parent == d.ID && p.Resource != ""
		})
		if !isParent {
			w.stop(d, "no resource of the profile "+w.Report.Config.Profile+" has it (class "+d.listed.Class+")",
				"compare the classes and selectors of the resources with `accelmux devices -o yaml`, or ignore this if the device is left out on purpose")
		}
	}
	return Finding{State: OK}
}

// byPlugin reports whether a device is served by the device plugin API, byDRA by claims.
func byPlugin(d *Device) bool { return d.resource != nil && d.resource.API != string(config.APIDRA) }
func byDRA(d *Device) bool    { return d.resource != nil && d.resource.API == string(config.APIDRA) }

// allocatable stops the devices of resources that kubelet does not have from this agent.
func allocatable(w *walk) Finding {
	if w.Report == nil {
		return w.unknown()
	}
	served, found := map[string]bool{}, Finding{State: OK, Why: "no resource is for the device plugin API"}
	for _, r := range w.Report.Resources {
		if r.API == string(config.APIDRA) || r.State == string(deviceplugin.StateEmpty) {
			continue
		}
		of := func(d *Device) bool { return d.Resource == r.Name }
		switch {
		case r.Conflict != "":
			found = w.stopAll(of, "kubelet may not have the resource "+r.Name+" from this agent: "+r.Conflict, "remove the other device plugin, or name the resource otherwise")
		case r.State != string(deviceplugin.StateServing):
			found = w.stopAll(of, "the resource "+r.Name+" is "+r.State+": "+cmp.Or(r.LastError, "kubelet has not accepted it yet"), "check kubelet's log")
		default:
			served[r.Name] = true
		}
	}
	if found.State == OK && len(served) > 0 {
		found.Why = listed("kubelet has", served)
	}
	return found
}

// dra stops the devices of drivers that kubelet or the API server does not have.
func dra(w *walk) Finding {
	if w.Report == nil {
		return w.unknown()
	}
	published, found := map[string]bool{}, Finding{State: OK, Why: "no resource is for dynamic resource allocation"}
	for _, driver := range w.Report.Drivers {
		var why, do string
		switch {
		case driver.Registered && driver.Published:
			published[driver.Name] = true
			continue
		case !driver.Registered:
			why, do = "kubelet has not accepted the driver "+driver.Name, "check kubelet's log, that its version has dynamic resource allocation, and that --kubelet-root-dir of the agent is its root directory"
		default:
			why, do = "the API server has not accepted the slices of the driver "+driver.Name, "check that the API server has resource.k8s.io and that the agent may write ResourceSlices"
		}
		if driver.Problem != "" {
			why += ": " + driver.Problem
		}
		found = w.stopAll(func(d *Device) bool { return byDRA(d) && d.Backend == driver.Backend }, why, do)
	}
	if found.State == OK && len(published) > 0 {
		found.Why = listed("published", published)
	}
	return found
}
