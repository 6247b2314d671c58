-- One call of runit: one batch at a run_duration of 0.
CALL runit(tab_prefix => '{prefix}', tab_num => {number}, tab_rows => :run_tab_rows, batch_size => :batch_size, run_duration => '{duration} seconds', pct_update => {update});
