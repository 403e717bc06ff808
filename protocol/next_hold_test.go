package protocol

import (
	"testing"
	"time"
)

func TestNext_holdsForNewer(t *testing.T) {
	runNext(t, []nextCase{
		{"newer content, and a newer node is registered, but dead",
			given(presentStatus(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").dead()),
			"Hold (HoldForNewer) [new NewerRelease]"},
		{"newer content that is not finished",
			given(presentStatus(Status{State: Working, Version: ver("1.1.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").dead()),
			"Hold (HoldForNewer) [new NewerRelease]"},
		{"rolls back when no newer node is registered any more",
			given(presentStatus(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"})),
			"Write (WaitForNodes) WORKING version=1.1.0 min=1.0.0 content=1.2.0@9 digest=d1.2 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"newer content, and a newer node whose role was just taken away",
			given(presentStatus(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").roleTaken()),
			"Hold (HoldForNewer) [new NewerRelease]"},
		{"ignores a newer record that has expired",
			given(presentStatus(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").gone(time.Minute, time.Minute)),
			"Write (WaitForNodes) WORKING version=1.1.0 min=1.0.0 content=1.2.0@9 digest=d1.2 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"does not ignore it before that",
			given(presentStatus(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").gone(time.Minute, time.Minute-1)),
			"Hold (HoldForNewer) [new NewerRelease]"},
	})
}
