package protocol

import "testing"

func TestNext_resigns(t *testing.T) {
	runNext(t, []nextCase{
		{"a newer controller is alive",
			given(presentStatus(targetStatus()), controller("new", "1.2.0")),
			"Resign (ResignToNewer) NewerAlive withdraw=false"},
		{"a newer controller is alive, and there is no status",
			given(absentStatus(), controller("new", "1.2.0")),
			"Resign (ResignToNewer) NewerAlive withdraw=false"},
		{"not to a newer one that is dead",
			given(presentStatus(targetStatus().by("me", 7)), controller("new", "1.2.0").dead()).progress(Progress{Finished: ownContent(4)}),
			"Hold (KeepTarget)"},
		{"not to one that has withdrawn",
			given(presentStatus(targetStatus().by("me", 7)), controller("new", "1.2.0").withdrawn()).progress(Progress{Finished: ownContent(4)}),
			"Hold (KeepTarget)"},
		{"not to one without the controller role",
			given(presentStatus(targetStatus().by("me", 7)), controller("new", "1.2.0").worker()).progress(Progress{Finished: ownContent(4)}),
			"Hold (KeepTarget)"},
		{"not to a corrupt record",
			given(presentStatus(targetStatus().by("me", 7)), controller("new", "1.2.0").corrupt("garbage")).progress(Progress{Finished: ownContent(4)}),
			"Hold (KeepTarget)"},
		{"not to one with a cordon",
			given(presentStatus(targetStatus().by("me", 7)), controller("new", "1.2.0").cordoned()).progress(Progress{Finished: ownContent(4)}),
			"Hold (KeepTarget)"},
		{"its node was taken out of service",
			Input{Local: Local{ID: "me", Version: ver("1.1.0")}, Fleet: Fleet{Records: []*Record{controller("me", "1.1.0").cordoned()}}, Status: absentStatus()},
			"Resign (ResignCordoned) Cordoned withdraw=false"},
		{"its kube-apiserver stays unreachable",
			given(presentStatus(targetStatus())).progress(Progress{APIGone: true}),
			"Resign (YieldUnreachable) APIUnreachable withdraw=true"},
		{"its controller role was taken away",
			Input{Local: Local{ID: "me"}, Fleet: Fleet{Records: []*Record{controller("me", "0.0.0").worker()}}, Status: absentStatus()},
			"Resign (ResignWithoutRole) NotController withdraw=false"},
	})
}
