#!/usr/bin/env bash
# Everything that needs a GPU, in 15 minutes at most: usage: workshop/gpu/lease.sh OUT [DEVICE] [SHAPE]
#
# Needs Python with torch, transformers, pytest and specplan's own dependencies (PYTHON names it), no network. The pair, widened
# to SHAPE, in stages by their value: "calibrate" and "validate" by torch, "servers" (both through vLLM's servers, where
# vLLM can be imported), "costs" (timings of LARGE_SHAPE) and "tests" (those marked gpu). STAGES="servers tests" runs these only:
# "calibrate validate", "servers" and "costs tests" take at most eight minutes each.
#
# OUT gets at most eight files. Each stage has a budget; one that fails leaves the others' results. Called again with the same
# OUT, it runs what has no result there yet, and goes on where a calibration or a validation stopped. SIGTERM ends it. On a CPU,
# `lease.sh OUT cpu SHAPE` with the config.json of a tiny shape rehearses all of it; SLOWER multiplies the budgets.
set -u
out=${1:?usage: lease.sh OUT [DEVICE] [SHAPE]} device=${2:-cuda:0} shape=${3:-qwen3-8b}
python=${PYTHON:-python3} work=${WORK:-$out.work} root=$(cd "$(dirname "$0")/../.." && pwd)
stages=" ${STAGES:-calibrate validate servers costs tests} "
draft_shape=${DRAFT_SHAPE:-qwen3-0.6b} judge_shape=${JUDGE_SHAPE:-qwen3-1.7b} large_shape=${LARGE_SHAPE-qwen3-32b}
answers=${ANSWERS:-12} dtype=bfloat16 mark=gpu
[ "$device" = cpu ] && dtype=float32 mark="not gpu"
vllm_options='--max-model-len 2048 --max-num-seqs 32 --attention-backend FLASH_ATTN --compilation-config'
vllm_options+=' {"mode":0,"cudagraph_mode":"FULL_DECODE_ONLY","cudagraph_capture_sizes":[1,2,4,8,16,32,64]}'
read -ra vllm_options <<< "${VLLM_OPTIONS:-$vllm_options}"
mkdir -p "$out" "$work/bin" && out=$(cd "$out" && pwd) && work=$(cd "$work" && pwd) || exit 1
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PATH="$work/bin:$PATH"
export HF_HUB_OFFLINE=1 VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
cd "$root" || exit 1
[ -f "$out/stages.tsv" ] || printf 'stage\tstatus\tseconds\n' > "$out/stages.tsv"
specplan=("$python" -m specplan) failed=0 stopped=0 running="" servers=""

said() { # NAME STATUS SECONDS
    printf '%s\t%s\t%d\n' "$@" | tee -a "$out/stages.tsv"
}

stop() { # STATUS: end the running stage, which keeps what it has measured
    stopped=$1
    [ -z "$running" ] || kill -TERM "$running" 2> /dev/null
}
trap 'stop 130' INT
trap 'stop 143' TERM

end_servers() {
    [ -n "$servers" ] || return 0
    kill -TERM "$servers" 2> /dev/null
    for _ in {1..20}; do kill -0 -- "-$servers" 2> /dev/null || break; sleep 0.5; done
    kill -KILL -- "-$servers" 2> /dev/null
    servers=""
}
trap end_servers EXIT

wanted() { # NAME
    case "$stages" in *" $1 "*) ;; *) return 1 ;; esac
}

stage() { # NAME BUDGET_S RESULT COMMAND...: where there is no RESULT yet; output to OUT/log.txt, status to OUT/stages.tsv
    local name=$1 budget=$(($2 * ${SLOWER:-1})) began=$SECONDS status
    [ -z "$3" ] || [ ! -e "$3" ] || return 0
    shift 3
    printf '\n== %s: %s\n' "$name" "$*" >> "$out/log.txt"
    # In the foreground: a signal is for the command alone, which ends its engines itself.
    timeout --foreground --signal=TERM --kill-after=15 "$budget" "$@" >> "$out/log.txt" 2>&1 < /dev/null &
    running=$!
    [ "$stopped" = 0 ] || stop "$stopped"
    wait "$running"
    status=$?
    if [ "$stopped" != 0 ]; then # the signal has ended the waiting, not yet the stage
        wait "$running"
        status=$?
    fi
    running=""
    said "$name" "$status" $((SECONDS - began))
    [ "$stopped" = 0 ] || exit "$stopped"
    [ "$status" = 0 ] || failed=1
    return "$status"
}

widen() { # NAME BUDGET_S FOLDER SHAPE OPTIONS...
    stage "$1" "$2" "$3" "${specplan[@]}" pair widen --shape "$4" --draft-shape "$draft_shape" --judge-shape "$judge_shape" \
        --draft-layers "${DRAFT_LAYERS:-3}" --judge-layers "${JUDGE_LAYERS:-8}" --dtype "$dtype" -o "$3" "${@:5}"
}

calibrate() { # NAME BUDGET_S PAIR RESULT OPTIONS...
    stage "$1" "$2" "$4" "${specplan[@]}" calibrate torch --target "$3/target" --draft "$3/draft" --judge "$3/judge" \
        --device "$device" --dtype "$dtype" --candidates 0 --allow-noise -o "$4" "${@:5}"
}

validate() { # NAME BUDGET_S PROFILE RESULT OPTIONS...
    local run runs=()
    while read -r run; do runs+=(--run "$run"); done <<< "${RUNS:-lr-async k1=1
lr-async k1=2
lr-async k1=4
lr-async k1=8
draft-model k2=4
lr-async k1=4 + draft-model k2=4
prompt-lookup k2=4}"
    if [ ! -f "$3" ]; then
        said "$1" "skipped: there is no ${3##*/}" 0
        failed=1
        return 1
    fi
    stage "$1" "$2" "$4" "${specplan[@]}" validate -p "$3" "${runs[@]}" -n "$answers" --json -o "$4" "${@:5}"
}

serve() { # the widened pair by vLLM, as the script starts it that specplan prints; its command measures
    local drafting ngram='{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}' command
    drafting="{\"method\": \"draft_model\", \"model\": \"$work/pair/draft\", \"num_speculative_tokens\": 3}"
    # `vllm serve MODEL ...`, where vLLM is a folder on the path or its CPU build: the command itself asks for a package vllm.
    printf '#!/usr/bin/env bash\nexec %q -m vllm.entrypoints.openai.api_server --model "${@:2}" %s\n' "$python" \
        "$(printf '%q ' "${vllm_options[@]}")" > "$work/bin/vllm"
    chmod +x "$work/bin/vllm"
    "${specplan[@]}" calibrate openai --print-servers --cache-gb "${CACHE_GB:-2}" --target "$work/pair/target" \
        --draft "$work/pair/draft" --judge "$work/pair/judge" --speculative drafting "$drafting" --speculative ngram "$ngram" \
        --prompts bundled -n "$answers" --concurrency "${LOADS:-1,4,16}" --allow-noise -o "$out/servers.json" \
        > "$work/servers.sh" 2>> "$out/log.txt"
    setsid bash "$work/servers.sh" > "$work/servers.log" 2>&1 < /dev/null &
    servers=$!
    if ! stage servers 95 "" bash -c 'until grep -q "^All servers answer" "$1"; do kill -0 "$2" || exit 1; sleep 1; done' \
        - "$work/servers.log" "$servers"; then
        tail -n 60 "$work/servers.log" >> "$out/log.txt"
        return 1
    fi
    eval "command=($(grep '^specplan calibrate' "$work/servers.sh"))"
    stage servers-calibrate 130 "$out/servers.json" "${specplan[@]}" "${command[@]:1}"
    validate servers-validate 80 "$out/servers.json" "$out/servers-validation.json"
}

questions=()
[ -z "${QUESTIONS:-}" ] || questions=(--prompts "$QUESTIONS")
read -ra more <<< "${CALIBRATE_OPTIONS:-}"
layers=()
[ -z "${LAYERS:-}" ] || layers=(--layers "$LAYERS")
if [ ! -d "$work/pair" ]; then
    stage machine 20 "" "$python" -c 'import torch; from importlib.metadata import version
print("torch", torch.__version__, "transformers", version("transformers"))
for n in range(torch.cuda.device_count()): print(torch.cuda.get_device_properties(n), torch.cuda.mem_get_info(n))'
    widen widen 65 "$work/pair" "$shape" "${layers[@]}"
fi
wanted calibrate && calibrate calibrate 165 "$work/pair" "$out/torch.json" --eagle "$work/pair/eagle" -n "$answers" \
    --token-answers "$answers" "${questions[@]}" "${more[@]}"
wanted validate && validate validate 100 "$out/torch.json" "$out/validation.json" "${questions[@]}"
if wanted servers && [ ! -f "$out/servers-validation.json" ]; then
    if "$python" -c 'import sys; from importlib.util import find_spec; sys.exit(find_spec("vllm") is None)'; then
        serve
        end_servers
    else
        said servers "skipped: vLLM cannot be imported" 0
    fi
fi
if wanted costs && [ -n "$large_shape" ] && [ ! -f "$out/large.json" ]; then
    # Half the layers of a 32B model: all of them do not fit on the disk of a machine that has 64 GiB.
    context=${LARGE_CONTEXT:-9216}
    widen costs-widen 60 "$work/large" "$large_shape" --layers "${LARGE_LAYERS:-32}" --context "$context" &&
        calibrate costs 125 "$work/large" "$out/large.json" --eagle none --token-draft none -n 2 \
            --contexts "${LARGE_CONTEXTS:-1024,8192}" --max-context "$context" "${questions[@]}"
    rm -rf "$work/large"
fi
wanted tests && stage tests 60 "" "$python" -m pytest -q -p no:cacheprovider -m "$mark" --junitxml "$out/tests.xml" \
    "${TESTS:-tests/calibrate/engines/torch/cuda}"
exit "$failed"
