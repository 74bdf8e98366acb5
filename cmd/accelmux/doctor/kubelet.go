package doctor

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/status"
)

const (
	startKubelet = "start kubelet; `journalctl -u kubelet` shows why it ended"
	setDir       = "set --kubelet-dir of the agent (in the chart hostPaths.devicePlugins) to " + kubeletdir.Default + ", in which kubelet has device-plugins with any --root-dir"
	setRootDir   = "set --kubelet-root-dir of the agent (in the chart hostPaths.kubelet) to "
)

// kubelet checks that kubelet listens for device plugins. With an agent that serves claims only, its
// socket is not needed.
func kubelet(w *walk) Finding {
	of, missing := byPlugin, ""
	if w.Report == nil {
		of = every
	} else if !slices.ContainsFunc(w.Report.Resources, func(r status.Resource) bool { return r.API == string(config.APIDevicePlugin) }) {
		return Finding{State: OK, Why: "no resource is for the device plugin API"}
	} else {
		missing = w.Report.KubeletMissing
	}
	do, err, rootErr := startKubelet, w.plugins(), w.root()
	switch {
	case w.KubeletDir == kubeletdir.Default:
	case rootErr == nil:
		do = setDir
	default:
		do += "; if it runs, " + setDir
	}
	return w.answers(of, w.pluginSocket(), missing, err, w.KubeletRootDir, rootErr, do)
}

// kubeletRoot checks that kubelet has the root directory that the agent uses. Devices of the device plugin API need
// it, too: the agent finds there who has them.
func kubeletRoot(w *walk) Finding {
	of := byDRA
	if w.Report == nil {
		of = every
	}
	do, err, pluginErr := startKubelet, w.root(), w.plugins()
	switch running := kubeletdir.Find(context.Background(), w.Procfs, w.KubeletRootDir); {
	case running != "" && running != w.KubeletRootDir:
		do = setRootDir + running
	case pluginErr == nil:
		do = setRootDir + "kubelet's --root-dir"
	}
	return w.answers(of, kubeletdir.Socket(w.KubeletRootDir), "", err, w.KubeletDir, pluginErr, do)
}

func (w *walk) pluginSocket() string {
	return filepath.Join(w.KubeletDir, "device-plugins", "kubelet.sock")
}

// plugins and root return nil if kubelet answers below KubeletDir and KubeletRootDir.
func (w *walk) plugins() error { return kubeletdir.Dial(context.Background(), w.pluginSocket()) }
func (w *walk) root() error {
	return kubeletdir.Dial(context.Background(), kubeletdir.Socket(w.KubeletRootDir))
}

// answers returns the finding for one of kubelet's sockets, which was dialed with an error or nil. missing is what the
// agent reports of it. otherErr is the error of the other one, which is in the directory other.
func (w *walk) answers(of func(*Device) bool, path, missing string, err error, other string, otherErr error, do string) Finding {
	why := missing
	switch {
	case why != "":
	case err == nil:
		return Finding{State: OK, Why: path + " answers"}
	case errors.Is(err, fs.ErrNotExist):
		why = path + " does not exist"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "no process listens on " + path
	default:
		return Finding{State: NotChecked, Why: err.Error()}
	}
	if otherErr == nil {
		why += "; kubelet runs, and answers in " + other
	}
	return w.stopAll(of, why, do)
}
