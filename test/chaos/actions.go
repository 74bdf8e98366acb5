package main

import "context"

// action is something that can happen to the node, with how often it is drawn.
type action struct {
	name   string
	weight int
	// rush says that the next step may begin before the node has come to rest.
	rush bool
	what string
	// run does it, and changes what is true accordingly. The errors are a violation,
	// an errSkip if it makes no sense now, or trouble with the runner itself.
	run func(w *world, ctx context.Context, arg int) error
}

// actions are all of them. Their order counts for the draw: put new ones at the end. What
// mends is drawn more often than what breaks: while anything is wrong with a backend or the
// disk, no newer agent takes over and no configuration is changed.
func actions() []action {
	return []action{
		{"allocate", 14, true, "a pod gets one or two devices of a resource, and its container starts", (*world).allocate},
		{"free", 9, true, "a pod ends", (*world).free},
		{"restart-container", 4, false, "a pod's container starts again", (*world).restartContainer},

		{"fault", 10, false, "a device gets a fault, of any kind of recovery", (*world).fault},
		{"clear", 6, false, "the hardware says no more of a fault", (*world).clear},
		{"recover", 5, false, "there is evidence that a device's faults are over", (*world).recoverDevice},
		{"flap", 3, false, "a device fails for a moment, three times", (*world).flap},
		{"unplug", 4, false, "a device vanishes", (*world).unplug},
		{"replug", 4, false, "one that vanished is back", (*world).replug},

		{"kill-backend", 6, true, "kill -9 of a backend", (*world).killBackend},
		{"stop-backend", 2, true, "SIGSTOP of a backend", (*world).stopBackend},
		{"freeze-backend", 2, true, "SIGSTOP and SIGCONT of a backend", (*world).freezeBackend},
		{"hang-backend", 1, false, "a backend answers, but its loop is stuck", (*world).hangBackend},
		{"crash-backend", 2, true, "a backend ends by itself", (*world).crashBackend},
		{"garbage", 3, false, "a backend reports devices that break the contract, or a report that does as a whole", (*world).garbage},
		{"crash-loop", 2, false, "a backend ends by itself as often as it is started", (*world).crashLoop},
		{"lose-program", 2, false, "a backend's program is gone, and then the backend", (*world).loseProgram},
		{"heal-backend", 14, false, "backends that are down may run again", (*world).healBackend},

		{"kill-agent", 4, true, "kill -9 of the active agent, and a new one", (*world).killAgent},
		{"stop-agent", 2, true, "SIGTERM of the active agent, and a new one", (*world).stopAgent},
		{"freeze-agent", 2, true, "SIGSTOP and SIGCONT of the active agent", (*world).freezeAgent},
		{"take-over", 4, false, "a newer agent takes over from one that is told to stop or killed", (*world).takeOver},
		{"end-standby", 4, true, "a newer agent on standby, and SIGTERM or kill -9 of it", (*world).endStandby},
		{"second-agent", 1, false, "another agent is started without --take-over, by mistake", (*world).secondAgent},

		{"restart-kubelet", 4, true, "kubelet restarts", (*world).restartKubelet},
		{"stop-kubelet", 2, true, "kubelet stops, or is killed and leaves its sockets", (*world).stopKubelet},
		{"start-kubelet", 8, true, "kubelet starts again", (*world).startKubelet},
		{"delete-kubelet-socket", 1, false, "kubelet's socket is deleted, and then it restarts", (*world).deleteKubeletSocket},
		{"delete-plugin-dir", 1, false, "kubelet's directory of plugins is deleted, and then it restarts", (*world).deletePluginDir},

		{"replicas", 3, true, "another number of containers may share a device", (*world).changeReplicas},
		{"units", 4, true, "another number of devices in a backend's settings", (*world).changeUnits},
		{"rename", 3, true, "a resource gets another name", (*world).rename},
		{"extra", 3, true, "a backend is added to the configuration, or taken out", (*world).toggleExtra},
		{"break-config", 2, true, "the configuration file is no good", (*world).breakConfig},

		{"delete-cdi", 2, false, "the CDI directory is deleted", (*world).deleteCDI},
		{"foreign-cdi", 2, false, "somebody else's CDI spec defines a device of ours", (*world).foreignCDI},
		{"lock-cdi", 1, false, "the CDI directory is read-only", (*world).lockCDI},
		{"damage-state", 2, false, "kill -9 of the agents, and a state file is damaged", (*world).damageState},
		{"fill-disk", 1, false, "the disk of state and CDI specs is full", (*world).fillDisk},
		{"mend-disk", 12, false, "what is wrong with the disk and the CDI directory is over", (*world).mendDisk},
		{"exhaust-descriptors", 1, false, "the agent can open no more files, while a backend dies", (*world).exhaustDescriptors},
		{"label", 3, false, "the Node gets or loses the label that chooses the profile without backend delta", (*world).label},
		{"lose-api", 1, true, "the API server goes away", (*world).loseAPI},
		{"find-api", 3, true, "the API server is back", (*world).findAPI},
		{"forget-watches", 1, true, "the API server cuts watches, and knows no old versions any more", (*world).forgetWatches},
		{"swap-program", 2, true, "a backend's program is replaced while it runs, by a copy or by half of one", (*world).swapProgram},
		{"starve-backend", 2, false, "a backend is out of memory", (*world).starveBackend},
		{"misbehave", 4, false, "backend epsilon begins one of the misdeeds of test/hostile", (*world).misbehave},
		{"behave", 10, false, "backend epsilon ends its misdeed, and its processes are killed or not", (*world).behave},
		{"reboot", 1, false, "the machine boots anew", (*world).reboot},
		{"mute-kubelet", 5, true, "in the place of a kubelet that stopped is one that accepts connections and never answers", (*world).muteKubelet},
		{"pin", 3, true, "the configuration pins the program of a backend by its checksum, or does not any more", (*world).pin},
		{"swap-pinned", 5, false, "a program that is pinned, now if it was not, is replaced by another one that works, and dies", (*world).swapPinned},
		{"step-clock", 3, false, "somebody sets the clock an hour forth or back, and right again", (*world).stepClock},
		{"newer-state", 2, false, "kill -9 of the agents, and a state file is one of a newer version", (*world).renewState},
		{"lock-state", 2, false, "the state directory alone is read-only while something happens", (*world).lockState},
		{"lock-plugin-dir", 2, false, "kubelet's directory of plugins is read-only while the agent is killed and another one starts", (*world).lockPlugins},
		{"fill-rest", 2, false, "the disk of kubelet's directories and the agents' sockets is full while a backend dies", (*world).fillRest},
		{"lose-kubelet-dir", 2, false, "kubelet's directory is not there when an agent starts", (*world).loseKubeletDir},
		{"stray-agent", 2, false, "another agent with a state directory of its own is started, by mistake", (*world).strayAgent},
		{"claim", 12, true, "a pod with a claim of one to three devices starts", (*world).startClaim},
		{"claim-part", 6, true, "a pod with a claim for a partition starts", (*world).claimPartition},
		{"kill-preparing", 3, false, "the backend or the agent is killed while it makes a partition", (*world).killPreparing},
		{"share-claim", 3, true, "another pod with a claim starts, and it is prepared again", (*world).shareClaim},
		{"end-claim", 8, true, "a pod with a claim ends", (*world).endClaimPod},
		{"lose-claim", 2, true, "a claim is deleted by force while its pods run", (*world).loseClaim},
		{"delete-slices", 2, true, "somebody deletes the node's slices", (*world).deleteSlices},
		{"damage-claim", 2, false, "kill -9 of the agents, and the file of a claim is damaged", (*world).damageClaim},
		{"forget-claim", 3, false, "kubelet restarts, and knows no more of a claim, whose pods are deleted meanwhile", (*world).forgetClaim},
		{"switch-api", 4, true, "the devices of backend iota are for the other API", (*world).switchAPI},
		{"reuse-claim", 5, true, "a pod starts with a claim that has outlived its last one", (*world).reuseClaim},
		{"claim-amount", 8, true, "a pod with a claim for a share of a device starts", (*world).claimAmount},
	}
}

// pick is the element of a list that an arg means.
func pick[T any](list []T, arg int) (T, bool) {
	var none T
	if len(list) == 0 {
		return none, false
	}
	return list[arg%len(list)], true
}
