package realkubelet

import (
	"flag"
	"io"

	"k8s.io/klog/v2"
)

// LogTo sends everything that kubelet's code logs in this process to w. Much of
// it goes through klog's global logger, so there is one writer for all kubelets;
// it must be safe for concurrent use. Call it before the first Start.
func LogTo(w io.Writer) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr": "false",
		// Errors go to the writer once, and not to standard error as well.
		"alsologtostderr": "false",
		"stderrthreshold": "FATAL",
		"one_output":      "true",
	} {
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	klog.SetOutput(w)
	return nil
}
