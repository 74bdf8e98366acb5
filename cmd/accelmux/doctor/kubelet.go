package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/status"
)

// dialTimeout is the longest time that a socket on this node takes to answer.
const dialTimeout = 2 * time.Second

// kubelet checks that kubelet listens for device plugins. With an agent that serves claims only, its
// socket is not needed.
func kubelet(w *walk) Finding {
	path := filepath.Join(w.KubeletDir, "device-plugins", "kubelet.sock")
	of := byPlugin
	if w.Report == nil {
		of = every
	} else if !slices.ContainsFunc(w.Report.Resources, func(r status.Resource) bool { return r.API == string(config.APIDevicePlugin) }) {
		return Finding{State: OK, Why: "no resource is for the device plugin API"}
	} else if w.Report.KubeletMissing != "" {
		return w.stopAll(of, w.Report.KubeletMissing, "start kubelet, or correct --kubelet-dir of the agent")
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = connection.Close() // nothing was sent
		return Finding{State: OK, Why: path + " answers"}
	case errors.Is(err, fs.ErrNotExist):
		return w.stopAll(of, path+" does not exist", "start kubelet; if its root directory is another one, name it with --kubelet-dir, here and of the agent")
	case errors.Is(err, syscall.ECONNREFUSED):
		return w.stopAll(of, "no process listens on "+path, "start kubelet; `journalctl -u kubelet` shows why it ended")
	}
	return Finding{State: NotChecked, Why: err.Error()}
}
