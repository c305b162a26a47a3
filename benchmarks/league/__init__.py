"""The league: public measurements beside specplan, measured operators, a peer, data sheets and a rule of thumb."""
