package realkubelet

import (
	"io"

	"k8s.io/klog/v2"
)

// LogTo sends everything that kubelet's code logs in this process to w. Much of
// it goes through klog's global logger, so there is one writer for all kubelets;
// it must be safe for concurrent use. Call it before the first Start.
func LogTo(w io.Writer) {
	klog.LogToStderr(false)
	klog.SetOutput(w)
}
