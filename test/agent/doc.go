// Package agent tests the whole agent, with real backend processes, against the
// stand-in kubelet of core/deviceplugin/kubelettest: one test for each rule of
// the design that a user would notice if it were broken, and one for each kind
// of bad input that only shows when everything runs together.
//
// What the real device manager makes of the same agent is tested in test/kubelet.
package agent
