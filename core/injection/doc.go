// Package injection chooses how containers get their devices, for resources whose
// configuration leaves that to the agent (injection: auto). It goes by the releases
// of kubelet and of the container runtime, which the node's own Node names
// (status.nodeInfo), and reads them rarely: once at the start, after each start of
// kubelet, and now and then.
//
// It decides nothing about devices, and nothing for what is configured.
package injection
