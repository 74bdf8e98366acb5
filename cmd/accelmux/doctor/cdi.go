package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/config"
)

const cdiStep = "CDI specs"

// needsCDI reports whether containers get a device by CDI.
func needsCDI(d *Device) bool {
	return d.resource != nil && d.resource.Injection != string(config.InjectPlain)
}

// withoutCDI reports whether the agent serves devices, and none of them by CDI.
func (w *walk) withoutCDI() bool {
	served := func(d *Device) bool { return d.resource != nil }
	return slices.ContainsFunc(w.devices, served) && !slices.ContainsFunc(w.devices, needsCDI)
}

// cdiSpecs reads the spec files as a container runtime does, and stops devices that they do not
// define.
func cdiSpecs(w *walk) Finding {
	if w.withoutCDI() {
		return Finding{State: OK, Why: "no resource needs CDI"}
	}
	if _, err := os.ReadDir(w.CDIDir); errors.Is(err, fs.ErrNotExist) && w.Report == nil {
		return Finding{State: NotChecked, Why: "there is no " + w.CDIDir + "; the agent makes it"}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Finding{State: NotChecked, Why: err.Error()}
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(w.CDIDir), cdi.WithAutoRefresh(false))
	if err != nil {
		return Finding{State: NotChecked, Why: err.Error()}
	}
	found, defined := Finding{State: OK}, 0
	broken := cache.GetErrors()
	for _, path := range slices.Sorted(maps.Keys(broken)) {
		found = Finding{Stops, fmt.Sprintf("the container runtime cannot use the CDI spec %s: %v", path, errors.Join(broken[path]...)),
			"remove the file, or correct what wrote it; the agent writes its own specs again when it restarts"}
	}
	for _, d := range w.devices {
		if d.listed == nil || d.listed.CDI == "" || !needsCDI(d) {
			continue
		}
		defined++
		if cache.GetDevice(d.listed.CDI) == nil {
			w.stop(d, "no CDI spec in "+w.CDIDir+" defines "+d.listed.CDI,
				"check that the directory is the agent's --cdi-dir, that it is mounted from the node, and that its disk is not full")
		}
	}
	switch {
	case found.State == Stops:
		return found
	case w.Report == nil:
		return Finding{State: NotChecked, Why: "the spec files are valid; only a running agent knows which definitions there must be"}
	}
	return Finding{State: OK, Why: fmt.Sprintf("definitions that pods get by name: %d", defined)}
}
